/*
 * sqfs-fuse: serves a volume at a mount point, with threads of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct error;
struct sqfs_server;
struct volume;

#define SQFS_SERVER_MAX_THREADS 16

struct sqfs_server_options {
	uid_t uid; /* who owns all that is shown */
	gid_t gid;
	unsigned n_threads;			     /* 1 … SQFS_SERVER_MAX_THREADS */
	void (*report)(void *arg, const char *text); /* the first error of the source; any thread */
	void *report_arg;
};

/* volume is not taken over and outlives the server, which is its only one. */
int sqfs_server_new(struct sqfs_server **sp, struct volume *volume,
		    const struct sqfs_server_options *options, struct error *err);
/* Closes what is left of the connection; a mount made by sqfs_server_mount() is the caller's to
 * take away. */
void sqfs_server_free(struct sqfs_server *s);
DEFINE_FREEP(struct sqfs_server, sqfs_server_free)

/* Serves a mount that is there: fds of /dev/fuse, the first the mount's, the others clones of it.
 * Takes all of them over, also when it fails. */
int sqfs_server_attach(struct sqfs_server *s, const int *fds, size_t n_fds, struct error *err);

/* Mounts at an empty directory: as root by mount(2), else by fusermount3. -ENODEV: this machine has
 * no /dev/fuse or no fusermount3. */
int sqfs_server_mount(struct sqfs_server *s, const char *path, struct error *err);

/*
 * Has the kernel learn that this server does not want to be told of closed files: it asks at the
 * first close, whose process can't be killed while it waits, and remembers the answer. path: of the
 * mount. Before sqfs_server_run(); takes a second at most. What goes wrong here is no error: then
 * the first close asks.
 */
void sqfs_server_settle(struct sqfs_server *s, const char *path);

/* Serves until the mount is gone or sqfs_server_stop(). Its threads are joined. Once it serves, the
 * calling thread has only what sandbox_enter_beside_server() leaves. */
int sqfs_server_run(struct sqfs_server *s, struct error *err);
/* Has content been read through the mount since the last call? Any thread. */
bool sqfs_server_was_read(struct sqfs_server *s);
/* Any thread or signal handler, any time, also before run. */
void sqfs_server_stop(struct sqfs_server *s);
