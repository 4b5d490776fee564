/*
 * copy-file: the bytes of one file, as they are: holes stay holes, the size is there before the first
 * byte, and what changes under our hands is noticed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct ctx;
struct error;
struct hash;

#define COPY_RANGE_SIZE (64ULL << 20) /* of a big file, given to one thread */

/* What it will take in memory, for charging. */
uint64_t copy_file_charge(const struct stat *st);

/* Makes name beneath dirfd, with the mode (less setuid, setgid, sticky) and the size of st. */
int copy_file_create(int dirfd, const char *name, const struct stat *st, int *fdp,
		     struct error *err);

/* Bytes [from, to) of in to out. hash: from 0 on, in order, holes as zeros (NULL: none). -ESTALE: in is
 * shorter than it said. */
int copy_file_range_data(struct ctx *ctx, int in, int out, uint64_t from, uint64_t to, bool sparse,
			 struct hash *hash, struct error *err);

/* Is in still as st says? Then out gets its times. */
int copy_file_finish(int in, int out, const struct stat *st, struct error *err);

bool copy_file_is_sparse(const struct stat *st);
