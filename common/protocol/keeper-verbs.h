/*
 * keeper-verbs: what stagingd may ask of its manager, and what it hears: integers, and the names of
 * datasets.
 *
 * One fixed-size packet on a SOCK_SEQPACKET pair; descriptors travel beside it. Root parses
 * nothing here: a packet of the wrong size or an unknown verb ends the conversation.
 * In common/ because both programs need it and programs do not include each other.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

enum keeper_verb {
	/* stagingd -> keeper; each is answered by KEEPER_REPLY with the same id */
	KEEPER_SPAWN = 1, /* id: chosen by stagingd, unique; arg0: enum keeper_class; one fd beside
			   * it: the worker's end of a conn_pair(), its fd 3. reply arg0: 0 or
			   * -errno, arg1: pid */
	KEEPER_KILL,	  /* id: of a SPAWN; arg0: SIGTERM or SIGKILL. reply arg0 */
	KEEPER_MOUNT,	  /* id: request; arg0: slot 0..63; arg1: number of fuse fds wanted (1..16).
			   * reply arg0: 0 or -errno, with the fds beside it (the first is the
			   * session's, the others are clones of it). Mounted at m/<slot>. */
	KEEPER_UNMOUNT,	  /* id: request; arg0: slot. reply arg0 */
	KEEPER_TIER,   /* id: request; arg0: mark of a Kind=disk tier (common/config/conf.h). Makes
			* and records the job's 0700 directory there, which is the user's:
			* <Path>/stage-data-<job>/data. arg1 1: also the user's for what he keeps,
			* where the site allows that. reply arg0: 0 or -errno; -ESTALE: the
			* configuration has no such tier any more; above 0: the mode of <Path>,
			* which others than its owner may write to, so nothing is made */
	KEEPER_END,    /* everything is released: unmount, remove, exit. No reply. */
	KEEPER_COUNT,  /* id: enum count (common/protocol/counts.h); arg0: what it has come to in
			* this job; what is out of its bounds is ignored. No reply. */
	KEEPER_SERVES, /* id: of a SPAWN of a writer that serves a mount from now on: it lives on
			* when stagingd or the keeper ends. No reply. */

	KEEPER_PLACE,	/* id: request; name: of a dataset; arg0: 1: read-only; one fd beside it: a
			* directory or a file of the user's (O_PATH). It is bind mounted on the
			* entry of that name in data, which is there, empty and of
			* RUNDIR_PLACE_MODE. reply arg0: 0, or -errno: nothing is mounted there,
			* but after -ETIMEDOUT it may be later, until the entry is removed */
	KEEPER_UNPLACE, /* id: request; name: whatever is mounted on that entry is detached. reply
			 * arg0 */

	/* keeper -> stagingd */
	KEEPER_REPLY = 64,
	KEEPER_EXITED, /* id: of a SPAWN; arg0: wait status as of waitpid(2); an exit status above
			* KEEPER_EXIT_EXEC: the program could not be started, less that is why */
	KEEPER_MEMORY, /* arg0: limit of the job's memory in bytes, -1: no cgroup found (not
			* charged); arg1: bytes in use by the job; sent after start, when known, at
			* the latest 5 s after it, and once more where a group appears later */
	KEEPER_CANCEL, /* the job is over: stop staging; kill follows */
};

#define KEEPER_EXIT_EXEC 130
#define KEEPER_NAME_SIZE 40

enum keeper_class {
	KEEPER_CLASS_WRITER, /* writes to memory: into the job's memory cgroup, oom_score_adj 1000
			      */
	KEEPER_CLASS_SERVER, /* serves a mount: in the job's cgroups, killed after the job's tasks
			      */
	KEEPER_N_CLASSES,
};

struct keeper_msg {
	uint32_t verb;
	uint32_t id;
	int64_t arg0;
	int64_t arg1;
	char name[KEEPER_NAME_SIZE]; /* letters, digits and _; "" where none is asked for */
};

/* Descriptors that stagingd is started with: */
#define KEEPER_FD_SPEC 3   /* the spec, a kv (common/config/spec.h), a sealed memfd */
#define KEEPER_FD_SOCKET 4 /* SOCK_SEQPACKET to keeper */
#define KEEPER_FD_LISTEN 5 /* bound to <rundir>/sock, the user's; stagingd calls listen() */

/* Where stagectl's cleaner has started it in place of a keeper: by this it hears that the cleaner
 * is dead. Other signals are for the command, and ignored from the cleaner on. */
#define CLEANER_SIGNAL_DIED SIGRTMAX

/* Descriptor a worker is started with: */
#define WORKER_FD_SOCKET 3
