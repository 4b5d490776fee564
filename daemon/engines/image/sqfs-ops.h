/*
 * sqfs-ops: answers the kernel's requests to a mounted volume.
 *
 * Everything belongs to one user; setuid, setgid and sticky bits are not shown, nor are devices,
 * FIFOs and sockets, nor extended attributes that are not of users (user.*).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct fuse_lowlevel_ops;
struct volume;

/* A file in the root that the volume does not have, for sqfs_server_settle(). */
#define SQFS_OPS_PROBE ".stage-data-probe"

struct sqfs_view {
	struct volume *volume;
	uid_t uid;
	gid_t gid;
	bool no_open, no_opendir; /* the kernel sends no more such requests after ENOSYS */
	bool is_probed;		  /* SQFS_OPS_PROBE exists */
	atomic_bool was_read;	  /* content was read since this was set to false */
	atomic_bool failed;	  /* an error of the source has been reported */
	void (*report)(void *arg, const char *text); /* called once at most, by any thread */
	void *report_arg;
};

/* The userdata of the session must be a struct sqfs_view. */
extern const struct fuse_lowlevel_ops sqfs_ops;
