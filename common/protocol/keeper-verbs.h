/*
 * keeper-verbs: the requests of stagingd to its manager, and the manager's messages to stagingd.
 *
 * Each is one packet of a fixed size on a SOCK_SEQPACKET pair, perhaps with descriptors. It has
 * integers and the name of a dataset, and nothing to parse. A packet of the wrong size or an
 * unknown verb ends the connection. In common/ because both programs need it, and programs do not
 * include each other.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

enum keeper_verb {
	/* stagingd -> keeper; each is answered by KEEPER_REPLY with the same id */
	KEEPER_SPAWN = 1, /* id: chosen by stagingd, unique; arg0: enum keeper_class; with one fd,
			   * the worker's end of a conn_pair(), which becomes its fd 3. reply arg0:
			   * 0 or -errno, arg1: pid */
	KEEPER_KILL,	  /* id: of a SPAWN; arg0: SIGTERM or SIGKILL. reply arg0 */
	KEEPER_MOUNT,	  /* id: request; arg0: slot 0..63; arg1: number of FUSE fds (1..16). Mounts
			   * m/<slot>. reply arg0: 0 or -errno, with the fds (the first is the
			   * session's, the others are clones of it) */
	KEEPER_UNMOUNT,	  /* id: request; arg0: slot. reply arg0 */
	KEEPER_TIER,   /* id: request; arg0: mark of a Kind=disk tier (common/config/conf.h). Makes
		        * and records the job's directory there, with the user's directory (mode
		        * 0700) in it: <Path>/stage-data-<job>/data. arg1 1: also makes the user's
		        * directory for kept data, if the site allows it. reply arg0: 0 or -errno;
		        * -ESTALE: the configuration has no such tier any more; above 0: the mode
		        * of <Path>, to which users other than its owner may write, so nothing is
		        * made */
	KEEPER_END,    /* everything is released: unmount, remove, exit. No reply. */
	KEEPER_COUNT,  /* id: enum count (common/protocol/counts.h); arg0: the figure's value in
		        * this job; values outside the limits are ignored. No reply. */
	KEEPER_SERVES, /* id: of a SPAWN. This writer serves a mount from now on: it continues when
		        * stagingd or the keeper ends. No reply. */

	KEEPER_PLACE,	/* id: request; name: of a dataset; arg0: 1: read-only; with one fd
			 * (O_PATH), a directory or file of the user. Bind mounts it on the entry of
			 * that name in data, which exists, is empty and has RUNDIR_PLACE_MODE.
			 * reply arg0: 0, or -errno: it is not mounted; but after -ETIMEDOUT it may
			 * be mounted later, until the entry is removed */
	KEEPER_UNPLACE, /* id: request; name: detaches any mount on that entry. reply arg0 */

	/* keeper -> stagingd */
	KEEPER_REPLY = 64,
	KEEPER_EXITED, /* id: of a SPAWN; arg0: wait status as from waitpid(2). If the exit status
		        * is above KEEPER_EXIT_EXEC, the program could not be started, and the
		        * difference is the errno */
	KEEPER_MEMORY, /* arg0: limit of the job's memory in bytes; -1: no cgroup was found, so
		        * memory is not charged; arg1: bytes that the job uses. Sent after the start
		        * as soon as it is known, at the latest after 5 s, and again if a group
		        * appears later */
	KEEPER_CANCEL, /* the job is over: stop staging; it will be killed soon */
};

#define KEEPER_EXIT_EXEC 130
#define KEEPER_NAME_SIZE 40

enum keeper_class {
	KEEPER_CLASS_WRITER, /* writes to memory: in the job's memory cgroup, oom_score_adj 1000 */
	KEEPER_CLASS_SERVER, /* serves a mount: in the job's cgroups; ends after the job's tasks */
	KEEPER_N_CLASSES,
};

struct keeper_msg {
	uint32_t verb;
	uint32_t id;
	int64_t arg0;
	int64_t arg1;
	char name[KEEPER_NAME_SIZE]; /* letters, digits and _; "" for verbs without a name */
};

/* Descriptors of stagingd at its start: */
#define KEEPER_FD_SPEC 3   /* the spec, a kv (common/config/spec.h), a sealed memfd */
#define KEEPER_FD_SOCKET 4 /* the SOCK_SEQPACKET to the manager */
#define KEEPER_FD_LISTEN 5 /* bound to <rundir>/sock, the user's; stagingd calls listen() */

/* When stagectl's cleaner has started stagingd instead of a keeper, this signal reports the death
 * of the cleaner. Other signals are meant for the command; the cleaner and its children ignore
 * them. */
#define CLEANER_SIGNAL_DIED SIGRTMAX

/* Descriptor of a worker at its start: */
#define WORKER_FD_SOCKET 3
