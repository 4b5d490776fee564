/*
 * seek-file: reads a zip at any position, in large pieces, and replaces its names by the correct
 * ones (zip-names.h).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct stage_io;
struct error;
struct seek_file;
struct zip_names;

/* fd still belongs to the caller. io (NULL: none): bytes that are read or skipped count as
 * progress, each byte of the file once. */
int seek_file_new(struct seek_file **fp, struct stage_io *io, int fd, struct error *err);
void seek_file_free(struct seek_file *f);
DEFINE_FREEP(struct seek_file, seek_file_free)

/* Returns the entries of the central directory; NULL: it is damaged. */
const struct zip_names *seek_file_get_names(const struct seek_file *f);

/* Reads bytes to *datap, which are lent until the next call. Returns their number, 0 at the end, or
 * -errno. */
ssize_t seek_file_read(struct seek_file *f, const void **datap, struct error *err);
/* Skips n bytes. */
void seek_file_skip(struct seek_file *f, uint64_t n);
/* Works as lseek(2). Returns the new position or -EINVAL. */
int64_t seek_file_seek(struct seek_file *f, int64_t offset, int whence);
