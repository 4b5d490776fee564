/*
 * sqfs-pipe: bytes of a file sent without a copy through this process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A part of a file. */
struct sqfs_span {
	uint64_t offset;
	size_t size;
};

/* Is the file still what the answer is meant to be of? 0, or -errno. */
typedef int (*sqfs_check_fn)(void *arg);

/*
 * Sends a head and then the spans of file fd to out, all in one splice(2), by a pipe that each
 * thread keeps. check is asked when the spans are in the pipe, which has the file's own pages, and
 * nothing is sent yet. 0: sent. -EOPNOTSUPP: not possible here, or too large for a pipe; -EIO: the
 * file is shorter; what check says; then nothing was sent. Else -errno of the sending.
 */
int sqfs_pipe_send(int out, const void *head, size_t head_size, int fd,
		   const struct sqfs_span *spans, size_t n_spans, sqfs_check_fn check, void *arg);
