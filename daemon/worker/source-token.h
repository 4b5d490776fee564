/*
 * source-token: decides when a dataset's source may be read. This reduces the load on a shared file
 * system. It is no protection: a user who can open the token files can also lock them, which delays
 * others by at most TokenWait=. Jitter=: if a job has several nodes, or is a task of an array, each
 * node begins at a random moment. TokenDir=: a directory on a file system that all nodes share. It
 * has one file for each dataset that may be read at the same time, and a worker that reads holds a
 * lock on one of them (flock(2), which NFS, Lustre with -o flock and GPFS share between nodes).
 */
#pragma once

#include "common/util/cleanup.h"

struct ctx;
struct error;

struct source_token {
	int fd; /* descriptor of the locked token; -1: none */
};
#define SOURCE_TOKEN_INIT                                                                          \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Waits as the policy requires. Returns 0 with or without a token: problems with the directory only
 * cause a warning. -ECANCELED or -ETIMEDOUT: the worker must end. */
int source_token_take(struct source_token *t, struct ctx *ctx, struct error *err);
void source_token_end(struct source_token *t);
