/*
 * archive-open: makes or reads the index of an archive that will be mounted, and reports about it.
 */
#pragma once

#include "common/dataset/facts.h"

struct archive_index;
struct ctx;
struct error;
struct source;
struct stat;

/* Makes the index of the source's archive (a plain tar or a zip). fd: the archive, or a copy of it.
 * *st: its state when it was indexed. *xp is finished; the caller owns it. Returns 1: read from the
 * file that `stagectl index` has made beside the archive; 0: made from the archive's headers; or an
 * error with err set. It refuses the same archives as extraction, and those that only extraction
 * can read (-EOPNOTSUPP). -ENOSPC: the memory for the index was not granted. */
int archive_open(struct ctx *ctx, const struct source *src, int fd, enum facts_format format,
		 struct archive_index **xp, struct stat *st, struct error *err);
