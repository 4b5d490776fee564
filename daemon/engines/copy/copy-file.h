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

/* A huge page: one that is written whole isn't filled with zeros first. */
#define COPY_BUFFER_SIZE (2u << 20)
/* Where there are many buffers, and for what is no larger. */
#define COPY_SMALL_SIZE (512u << 10)

/* st_blocks of what takes less room than its size become those that a copy needs: at its source it
 * may lie compressed, without a hole. */
void copy_file_look_for_holes(int fd, struct stat *st);

/* What it will take in memory, for charging. */
uint64_t copy_file_charge(const struct stat *st);

/* Makes name beneath dirfd, with the mode (less setuid, setgid, sticky) and the size of st. */
int copy_file_create(int dirfd, const char *name, const struct stat *st, int *fdp,
		     struct error *err);

/* Bytes [from, to) of in to out; sparse: without its holes. hash: from 0 on, in order, holes as
 * zeros (NULL: none). -ESTALE: in is shorter than it said. */
int copy_file_range_data(struct stage_io *io, int in, int out, uint64_t from, uint64_t to,
			 bool sparse, struct hash *hash, struct error *err);

/* The same without a hash. buf: of buf_size. *read_usp: how long reading took. */
int copy_file_part(struct stage_io *io, int in, int out, uint64_t from, uint64_t to, bool sparse,
		   char *buf, size_t buf_size, uint64_t *read_usp, struct error *err);

/* The same of a part that is found at in_at, without a hole. io may be NULL. */
int copy_file_shifted(struct stage_io *io, int in, uint64_t in_at, int out, uint64_t from,
		      uint64_t to, char *buf, size_t buf_size, struct error *err);

/* Some file systems (NFS) say only now that there was no room for what was written. *fdp is -1 in
 * any case. */
int copy_file_close(int *fdp, struct error *err);

/* A small file that is in buf already. */
int copy_file_write(int out, const char *buf, size_t size, struct error *err);

/* Is in still as st says, and out written as far as close(2) would know? Then out gets its times.
 */
int copy_file_finish(int in, int out, const struct stat *st, struct error *err);

bool copy_file_is_sparse(const struct stat *st);
/* Type, mode, size and the content's time, and no more: whoever asks for the rest makes some file
 * systems ask their server. -errno. */
int copy_file_look(int fd, struct stat *st);
/* The same size and time of its content? */
bool copy_file_is_same(const struct stat *a, const struct stat *b);

/* The mode of a copy. Its owner may read it as he could read the source, by whichever right. */
mode_t copy_file_mode(mode_t source);
