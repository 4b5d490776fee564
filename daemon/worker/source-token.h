/*
 * source-token: when a dataset's source may be read. Kindness to a file system that others use too,
 * no protection: who can open the token files can hold them, which costs others TokenWait= at most.
 *
 * Jitter=: where a job has several nodes, or is one of an array's tasks, each begins at a moment of
 * its own. TokenDir=: a directory, on a file system that all nodes share, with as many files as
 * datasets may be read at once; who reads holds one of them (flock(2), which NFS, Lustre with -o
 * flock and GPFS hand on between nodes).
 */
#pragma once

#include "common/util/cleanup.h"

struct ctx;
struct error;

struct source_token {
	int fd; /* the token; -1: none */
};
#define SOURCE_TOKEN_INIT                                                                          \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Waits as the policy says. 0 with or without a token: what is wrong with the directory is a
 * warning. -ECANCELED, -ETIMEDOUT. */
int source_token_take(struct source_token *t, struct ctx *ctx, struct error *err);
void source_token_end(struct source_token *t);
