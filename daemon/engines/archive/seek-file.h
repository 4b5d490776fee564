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

/* fd stays the caller's. io (NULL: none): what is read and passed over counts as progress, each
 * byte of the file's size once. */
int seek_file_new(struct seek_file **fp, struct stage_io *io, int fd, struct error *err);
void seek_file_free(struct seek_file *f);
DEFINE_FREEP(struct seek_file, seek_file_free)

/* What its directory says; NULL: it is damaged. */
const struct zip_names *seek_file_get_names(const struct seek_file *f);

/* Size of the bytes at *datap, which are lent until the next call; 0 at the end, -errno. */
ssize_t seek_file_read(struct seek_file *f, const void **datap, struct error *err);
/* n bytes are passed over. */
void seek_file_skip(struct seek_file *f, uint64_t n);
/* As lseek(2): where the next byte is read, or -EINVAL. */
int64_t seek_file_seek(struct seek_file *f, int64_t offset, int whence);
