/*
 * tar-writer: an archive (POSIX pax) of files and directories to a descriptor. What does not fit
 * into a ustar header (long names, 8 GiB and more, times before 1970) is written as a pax record.
 *
 * Owners are left out and nothing depends on the machine: the same files give the same bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/util/cleanup.h"

struct tar_writer;

#define TAR_BLOCK 512

/* fd stays the caller's. Returns 0 or -ENOMEM. */
int tar_writer_new(struct tar_writer **wp, int fd);
void tar_writer_free(struct tar_writer *w);
DEFINE_FREEP(struct tar_writer, tar_writer_free)

/* Begins a file of exactly size bytes. path is relative; mode: permission bits. Returns -EINVAL if
 * the previous file is not complete. */
int tar_writer_begin(struct tar_writer *w, const char *path, unsigned mode, uint64_t size,
		     time_t mtime);

/* Writes the header of a directory. */
int tar_writer_add_dir(struct tar_writer *w, const char *path, unsigned mode, time_t mtime);

/* Writes the next bytes of the file. Returns -EFBIG if they exceed its size. */
int tar_writer_put(struct tar_writer *w, const void *data, size_t size);

/* Ends the archive and flushes it. Returns -EINVAL if a file is not complete. */
int tar_writer_end(struct tar_writer *w);

/* Returns the bytes that a file takes in the archive, with headers and padding. */
uint64_t tar_writer_get_cost(const char *path, uint64_t size, time_t mtime);
