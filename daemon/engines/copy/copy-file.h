/*
 * copy-file: copies the bytes of one file. Holes stay holes, the size is set before the first byte
 * is written, and a change of the file during the copy is noticed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct stage_io;
struct error;
struct hash;

/* The size of a huge page. The kernel does not fill a huge page with zeros if it is written
 * completely. */
#define COPY_BUFFER_SIZE (2u << 20)
/* For copies with many buffers, and for files that are not larger. */
#define COPY_SMALL_SIZE (512u << 10)

/* Sets st_blocks of a file that has fewer blocks than its size requires to the number that a copy
 * needs. On a compressing file system, such a file may have no holes. */
void copy_file_look_for_holes(int fd, struct stat *st);
/* Does the same for a name in a directory, which st describes. Opens the file only if it seems to
 * have holes. Changes nothing if the file cannot be opened. */
void copy_file_look_for_holes_at(int dirfd, const char *name, struct stat *st);

/* Returns the memory that a copy of the file takes, in bytes, for stage_io_charge(). */
uint64_t copy_file_charge(const struct stat *st);

/* Creates name in dirfd, with the mode (without setuid, setgid, sticky) and the size of st. The
 * caller owns *fdp. Returns 0 or -errno. */
int copy_file_create(int dirfd, const char *name, const struct stat *st, int *fdp,
		     struct error *err);

/* Copies bytes [from, to) of in to the same place in out. sparse: leaves out the holes of in. hash
 * (NULL: none): gets the bytes in order, and holes as zeros. Returns 0 or -errno. -ESTALE: in has
 * become shorter. */
int copy_file_range_data(struct stage_io *io, int in, int out, uint64_t from, uint64_t to,
			 bool sparse, struct hash *hash, struct error *err);

/* Does the same without a hash, with the caller's buffer. *read_usp: time spent on reading. */
int copy_file_part(struct stage_io *io, int in, int out, uint64_t from, uint64_t to, bool sparse,
		   char *buf, size_t buf_size, uint64_t *read_usp, struct error *err);

/* Does the same for a part without holes, which is at in_at in in. io may be NULL. */
int copy_file_shifted(struct stage_io *io, int in, uint64_t in_at, int out, uint64_t from,
		      uint64_t to, char *buf, size_t buf_size, struct error *err);

/* Closes *fdp and sets it to -1 in any case. Returns 0 or -errno: some file systems (NFS) report
 * only now that there was no space for written bytes. */
int copy_file_close(int *fdp, struct error *err);

/* Writes a small file, whose content is in buf. */
int copy_file_write(int out, const char *buf, size_t size, struct error *err);

/* Checks that in has not changed since st, and that out was written, as far as close(2) reports
 * this. Then sets the times of out. Returns 0 or -errno. -ESTALE: in has changed. */
int copy_file_finish(int in, int out, const struct stat *st, struct error *err);

bool copy_file_is_sparse(const struct stat *st);
/* Gets only type, mode, size and mtime, because other fields make some file systems send a request
 * to their server. Returns 0 or -errno. */
int copy_file_look(int fd, struct stat *st);
/* Returns true if size and mtime are the same. */
bool copy_file_is_same(const struct stat *a, const struct stat *b);

/* Returns the mode of a copy. The copy's owner may read the copy, even if only the group or others
 * could read the source. */
mode_t copy_file_mode(mode_t source);
