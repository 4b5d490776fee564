/*
 * squashfuse: runs squashfuse_ll, the image server of the squashfuse project, instead of ours if
 * the site has set [mount] Backend=squashfuse_ll. A worker cannot start programs any more when it
 * reads a source. So it makes a child process before that. The child waits for a request, then
 * executes the program. It ends with the worker.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct error;
struct squashfuse;

#define SQUASHFUSE_PROGRAM "squashfuse_ll"

/* Makes the child process. Call it before the sandbox is entered and before any thread starts. */
int squashfuse_new(struct squashfuse **sp, struct error *err);
/* Ends the program, waits for it and frees s. */
void squashfuse_free(struct squashfuse *s);
DEFINE_FREEP(struct squashfuse, squashfuse_free)

/* Starts the program, which serves the image with n_threads. session: descriptor of /dev/fuse for
 * an existing mount at path; the caller closes its own copies afterwards, because the mount would
 * otherwise outlive the program. -1: the program mounts at path, an empty directory, with
 * fusermount3. May be called once. */
int squashfuse_start(struct squashfuse *s, int image, int session, const char *path,
		     unsigned n_threads, struct error *err);

/* Waits until the mount at path answers, and closes a file there, so that the kernel learns that
 * this server does not need messages about closed files (as sqfs_server_settle()). Returns 0 or an
 * error with err set; -ENODEV: the program has ended, and err has its message; -ECANCELED:
 * is_cancelled(arg) has returned true. */
int squashfuse_wait_ready(struct squashfuse *s, const char *path, bool (*is_cancelled)(void *arg),
			  void *arg, struct error *err);

/* Waits until the program has ended, which happens when the mount is gone or after
 * squashfuse_stop(). Returns 0 or an error with err set; -EIO: the program has failed. */
int squashfuse_wait(struct squashfuse *s, struct error *err);

/* Ends the program. Can be called from any thread and from a signal handler. */
void squashfuse_stop(struct squashfuse *s);
