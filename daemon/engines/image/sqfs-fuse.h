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
	uid_t uid; /* owner of all files in the mount */
	gid_t gid;
	unsigned n_threads;			     /* 1 … SQFS_SERVER_MAX_THREADS */
	void (*report)(void *arg, const char *text); /* called for the first error of the source,
						      * by any thread */
	void *report_arg;
};

/* volume still belongs to the caller, and must outlive the server, which is its only one. */
int sqfs_server_new(struct sqfs_server **sp, struct volume *volume,
		    const struct sqfs_server_options *options, struct error *err);
/* Closes the connection. The caller must unmount a mount of sqfs_server_mount(). */
void sqfs_server_free(struct sqfs_server *s);
DEFINE_FREEP(struct sqfs_server, sqfs_server_free)

/* Makes the server use an existing mount. fds: descriptors of /dev/fuse; the first is the mount's,
 * the others are its clones. Consumes all of them, also on failure. */
int sqfs_server_attach(struct sqfs_server *s, const int *fds, size_t n_fds, struct error *err);

/* Mounts on an empty directory: as root by mount(2), otherwise by fusermount3. -ENODEV: this
 * machine has no /dev/fuse or no fusermount3. */
int sqfs_server_mount(struct sqfs_server *s, const char *path, struct error *err);

/*
 * Tells the kernel that this server does not want a request for each closed file. The kernel learns
 * this at the first close, and the process that closes cannot be killed while it waits. path: the
 * mount point. Must be called before sqfs_server_run(); takes a second at most. A failure here is
 * ignored: then the first close of a user sends the request.
 */
void sqfs_server_settle(struct sqfs_server *s, const char *path);

/* Serves until the mount is gone or sqfs_server_stop() is called. All its threads have ended then.
 * While it serves, the calling thread has only the rights that sandbox_enter_beside_server()
 * leaves. */
int sqfs_server_run(struct sqfs_server *s, struct error *err);
/* Returns true if content was read through the mount since the last call. May be called by any
 * thread. */
bool sqfs_server_was_read(struct sqfs_server *s);
/* May be called by any thread or signal handler at any time, also before sqfs_server_run(). */
void sqfs_server_stop(struct sqfs_server *s);
