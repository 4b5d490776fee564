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

/* Checks that the file has not changed. Returns 0 or -errno. */
typedef int (*sqfs_check_fn)(void *arg);

/*
 * Sends a head and then spans of file fd to out by one splice(2), through a pipe; a few pipes are
 * kept. check is called when the spans are in the pipe, which contains the file's own pages, and
 * before anything is sent. Returns 0 if they were sent. If nothing was sent: -EOPNOTSUPP: not
 * possible here, or too large for a pipe; -EIO: the file is shorter; or the error of check.
 * Otherwise returns -errno of the sending.
 */
int sqfs_pipe_send(int out, const void *head, size_t head_size, int fd,
		   const struct sqfs_span *spans, size_t n_spans, sqfs_check_fn check, void *arg);
