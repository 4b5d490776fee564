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

/*
 * fd: of the source's archive, a plain tar or a zip, or of a copy; *st becomes what it was when it
 * was indexed. The same archives are refused as by extraction, and those that only extraction can
 * read (-EOPNOTSUPP). The memory of the index is reserved: -ENOSPC. *xp is finished and the
 * caller's. 1: it is by the file that `stagectl index` has made beside the archive, which fits it;
 * 0: by its headers.
 */
int archive_open(struct ctx *ctx, const struct source *src, int fd, enum facts_format format,
		 struct archive_index **xp, struct stat *st, struct error *err);
