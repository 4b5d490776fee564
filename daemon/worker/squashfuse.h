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

/* Before the sandbox and before any thread. */
int squashfuse_new(struct squashfuse **sp, struct error *err);
/* Ends the program and waits for it. */
void squashfuse_free(struct squashfuse *s);
DEFINE_FREEP(struct squashfuse, squashfuse_free)

/*
 * Has the image open as `image` served, with n_threads. session: of /dev/fuse, of the mount at path
 * that is there already; the caller closes his copies then, or the mount would outlive the program.
 * -1: the program mounts at path, an empty directory, by fusermount3. Once.
 */
int squashfuse_start(struct squashfuse *s, int image, int session, const char *path,
		     unsigned n_threads, struct error *err);

/*
 * Waits until the mount at path answers, and has the kernel learn that this server does not want to
 * be told of closed files (as sqfs_server_settle()). -ENODEV: the program has ended; err has what
 * it said. -ECANCELED: is_cancelled(arg) has become true.
 */
int squashfuse_wait_ready(struct squashfuse *s, const char *path, bool (*is_cancelled)(void *arg),
			  void *arg, struct error *err);

/* Waits until the program has ended, which it does when the mount is gone, or after
 * squashfuse_stop(). -EIO: it has failed. */
int squashfuse_wait(struct squashfuse *s, struct error *err);

/* Ends it. Any thread or signal handler. */
void squashfuse_stop(struct squashfuse *s);
