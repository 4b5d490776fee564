/*
 * keeper-privops: the privileged operations that stage-manager requests from stage-keeper.
 * stage-manager decides and runs as the system user; stage-keeper is root and decides nothing. A
 * request is one packet of a fixed size on a SOCK_SEQPACKET pair. The answer is a packet of the
 * same struct, perhaps with descriptors: r is 0 or more, or -errno. Root parses nothing: names are
 * numbers, and a text is a path that root opens with its own checks, or arguments for one of our
 * programs. A packet of the wrong size, or with descriptors, ends the connection, and with it the
 * keeper. In common/ because both programs need it.
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/rundir.h"
#include "common/slurm/job-cgroup.h"

enum privop_kind {
	/* Directories and names in them. Arguments: dir; name (enum privop_name); n: the numbers in
	 * the name. */
	PRIVOP_OPEN_BASE = 1, /* dir: PRIVOP_DIR_RUN or _TRASH, which is made if it is missing.
			       * Returns an fd (O_PATH: see PRIVOP_LIST) */
	PRIVOP_OPEN_TIER, /* text: path of a disk tier, which becomes PRIVOP_DIR_TIER; n: the tier's
			   * index in the configuration (struct helper_path), -1: in none. Returns
			   * an fd; -EPERM: a part of the path does not belong to root alone;
			   * -ENOENT: the configuration does not name the path, and nothing of ours
			   * is in it; -EINPROGRESS: as for PRIVOP_SITE */
	PRIVOP_OPEN_DIR,  /* a job's directory. r: its number for later requests; uid, gid: the
			   * job's user by root's mark, 0: not known. Returns an fd (O_PATH) */
	PRIVOP_CLOSE_DIR, /* dir */
	PRIVOP_CHECK_DIR, /* r 0: dir2 is still the directory with that name; 1: it is not */
	PRIVOP_MAKE_DIR,  /* makes a job's directory, or its `mounts`, as root with mode 0711. In
			   * PRIVOP_DIR_TIER: PRIVOP_NAME_KEEP is made for the job's user, and may
			   * exist; PRIVOP_NAME_TIER is made as root with mode 0711, with a
			   * directory of the user in it (common/protocol/tier-name.h). -EPERM:
			   * another name; -EDQUOT: PRIVOP_MAX_DIRS were made, not counting
			   * PRIVOP_NAME_KEEP */
	PRIVOP_RENAME,	  /* renames to name2, with the same numbers, in dir2 */
	PRIVOP_REMOVE,	  /* removes a file or an empty directory; in a tier, with the user's
			   * directory in it */
	PRIVOP_OPEN_FILE, /* dir, name: enum privop_file. Returns an fd for reading */
	PRIVOP_BIND,	  /* dir. Makes the job's socket for the user. Returns an fd */

	/* Mounts. They are made on that name in dir. */
	PRIVOP_MEMORY, /* dir, n: bytes, inodes. Mounts the job's tmpfs as root, and makes the
		        * user's directories in it (common/protocol/rundir.h) */
	PRIVOP_RESIZE, /* dir, n: bytes */
	PRIVOP_SLOT, /* name, n: slot, number of fds. Mounts a FUSE slot. Returns the fds, of which
		      * root keeps no copy */
	PRIVOP_DETACH,	     /* n[2]: 1: detaches the topmost mount; 0: any mount there, lazily */
	PRIVOP_DETACH_BELOW, /* text: a path without links and "..", below PRIVOP_DIR_TIER (a
			      * directory of an open job, or of the data that the job's user keeps),
			      * or below the tmpfs (name: PRIVOP_NAME_MEMORY). Detaches the topmost
			      * mount on it; -EXDEV: there is a mount on the way */
	PRIVOP_REPEAT,	     /* text: a mount namespace, in which the mount is repeated */
	PRIVOP_OPEN_WAITING, /* dir, name (of a slot). Returns an fd from which the number of
			      * unanswered requests can be read; -ENOENT: the slot has no
			      * connection */
	PRIVOP_ABORT,	     /* dir, name (of a slot): ends its connection; the same error */

	/* Processes */
	PRIVOP_SITE,  /* the answer that root has looked up itself: an fd of a struct helper_site */
	PRIVOP_USER,  /* the same for the job's user; r 1: the account exists; 0: it does not. Both:
		       * -EINPROGRESS: not yet, a PRIVOP_EXITED follows; another -errno: the reason
		       * for a failure; it may be tried again */
	PRIVOP_SPAWN, /* name: enum privop_program, uid, gid, n: PRIVOP_SPAWN_*, nice, number of
		       * words; text: the words, each ended by NUL. r: pid, n[1]: start. Returns an
		       * fd of a socket: descriptors that are sent in it with a packet of one byte
		       * become the program's 3, 4, … and its output. It takes them after PRIVOP_GO;
		       * if the socket was closed, there are none. The words follow "stage-helper",
		       * beginning with a task; root sets the word CONF. Other programs get their
		       * words from root, run as the job's user with the account's groups, and need
		       * PRIVOP_USER first */
	PRIVOP_GO,    /* n: 1: the process that was spawned last may begin; 0: it ends */
	PRIVOP_LOOK,  /* n: pid, n[2]: whether to look at its program. r 1: the process is stopped;
		      * n[1]: its start; n[2] 1: its program is Slurm's step daemon; -ESRCH, also
		      * for a zombie */
	PRIVOP_KILL,  /* n: pid, start (0: a child of the keeper), signal: SIGKILL, SIGTERM or
		      * SIGCONT. Allowed are processes of the job's user (in a clean-up: of the
		      * users of jobs whose directories are open), and keepers of these jobs; the
		      * manager of a run may signal only other runs, no clean-ups. -ESRCH; -EPERM:
		      * not allowed */
	PRIVOP_KILL_CHILDREN, /* kills all children and the orphans of their children, except the
			       * manager and root's own helpers. r: how many there were */
	PRIVOP_FOLLOW,	      /* text: a set of CPUs to run on */
	PRIVOP_OPEN_PROC,     /* Returns an fd (O_PATH) of /proc, without hidepid= if possible */

	/* Cgroups, below cgroup file systems only */
	PRIVOP_HOLD_GROUP,   /* n: enum privop_group; text: the job's directory in that hierarchy.
			      * PRIVOP_SPAWN_GROUPS uses it from now on. In the memory hierarchy,
			      * makes JOB_CGROUP_OURS in it and uses that */
	PRIVOP_ENTER_GROUPS, /* n: pid of a child, which is moved to all groups that are held */
	PRIVOP_REMOVE_GROUP, /* n: enum privop_group, 1: the job is over; text: as for
			      * PRIVOP_HOLD_GROUP. In the memory hierarchy, removes JOB_CGROUP_OURS
			      * with all its processes. Removes the job's directory if the job is
			      * over and the directory is empty */
	PRIVOP_JOIN_GROUP,   /* text: a file tasks or cgroup.procs, to which keeper and manager
			      * move */

	/* The site's files */
	PRIVOP_OPEN_LOG, /* once. -EPERM: a directory in its path does not belong to root alone */
	PRIVOP_TEXT, /* the file of metrics; n: 0: makes a new file next to it, which becomes fd 3
		      * of the task "metrics"; 1: gives the new file the name. -EPERM: as above */

	/* More operations on directories */
	PRIVOP_WRITE, /* dir, name: enum privop_file, n: bytes of text; 1: append them to those
		       * written before. No file becomes larger than PRIVOP_MAX_RECORD. The manager
		       * gets no descriptor for writing */
	PRIVOP_LOCK,  /* dir, n: enum privop_lock. The keeper itself holds the lock of a job's
		       * directory, so the lock is free when the keeper has ended. -EBUSY: another
		       * process has the lock */

	/* More operations on mounts */
	PRIVOP_PLACE, /* name: PRIVOP_NAME_MEMORY; text: a path below the tmpfs, and after
		       * its NUL a mount namespace or nothing; n[0]: 1: read-only. r: pid.
		       * Returns an fd of a socket. The fd that is sent in it with a packet
		       * of one byte is bind mounted on that path, nosuid, nodev and private,
		       * also in that namespace. The path must be an entry of the user with
		       * RUNDIR_PLACE_MODE. The fd must belong to the user or be in one of
		       * the job's slots. The operation comes back through the socket with r:
		       * 0; or -errno, although it may be mounted. Without an answer within
		       * PRIVOP_PLACE_SECONDS, it may still be mounted later */

	/* Texts. The manager has no pipe to a process of root. */
	PRIVOP_LOG,    /* text: lines for the site's log. Bytes beyond the keeper's quota for the
		        * log are dropped. -EBADF: the log is not open */
	PRIVOP_ANSWER, /* text: the answer that the plugin reads; can be sent once */

	/* Listing a directory of root. The manager has no descriptor for this: it could list into
	 * memory that a FUSE server backs, and the kernel would hold the directory's lock for that
	 * time. */
	PRIVOP_LIST, /* dir: PRIVOP_DIR_RUN or _TRASH; n: 1: from the beginning. r: bytes of text,
		      * which has entries as from getdents64(2); 0: there are no more */

	PRIVOP_N,

	/* Messages that the keeper sends without a request */
	PRIVOP_EXITED, /* n: pid and status (as from waitpid(2)) of a child that has ended and was
		        * reaped */
	PRIVOP_OVER,   /* the keeper was told to end */
};

/* Names of files and directories; n[0] and n[1] are the numbers in them. */
enum privop_name {
	PRIVOP_NAME_SOCK, /* in a job's directory */
	PRIVOP_NAME_FAILED,
	PRIVOP_NAME_STATE,
	PRIVOP_NAME_STATE_NEW,
	PRIVOP_NAME_LOCK,
	PRIVOP_NAME_MOUNTS,
	PRIVOP_NAME_MEMORY,
	PRIVOP_NAME_SLOT,    /* slot */
	PRIVOP_NAME_CRASHES, /* in STAGE_RUN_DIR */
	PRIVOP_NAME_BREAKER,
	PRIVOP_NAME_JOB,	/* job */
	PRIVOP_NAME_JOB_ASIDE,	/* job, ms; in .trash */
	PRIVOP_NAME_TIER,	/* job; in a tier */
	PRIVOP_NAME_TIER_ASIDE, /* job, ms */
	PRIVOP_NAME_KEEP,	/* uid */
	PRIVOP_N_NAMES,
};

enum privop_file {
	PRIVOP_FILE_STATE, /* only for reading */
	PRIVOP_FILE_STATE_NEW,
	PRIVOP_FILE_FAILED,
	PRIVOP_FILE_CRASHES, /* appended to, only in a clean-up */
	PRIVOP_FILE_BREAKER, /* made only in a clean-up */
	PRIVOP_FILE_METRICS, /* overwritten */
	PRIVOP_N_FILES,
};

enum privop_lock {
	PRIVOP_LOCK_TAKE, /* held until PRIVOP_LOCK_FREE or PRIVOP_CLOSE_DIR */
	PRIVOP_LOCK_FREE,
	PRIVOP_LOCK_LOOK, /* r 0: no process has the lock */
	/* Two numbers of the reaper, which follow root's mark in the file (leftover.h). */
	PRIVOP_LOCK_WRITE, /* n[1], n[2] */
	PRIVOP_LOCK_READ,  /* the same numbers in the answer; 0: none were written */
};

enum privop_dir {
	PRIVOP_DIR_RUN,
	PRIVOP_DIR_TRASH,
	PRIVOP_DIR_TIER,
	PRIVOP_DIR_FREE, /* this and higher numbers: from PRIVOP_OPEN_DIR */
	PRIVOP_N_DIRS = 7,
};

enum privop_program {
	PRIVOP_PROGRAM_HELPER,
	PRIVOP_PROGRAM_DAEMON,
	PRIVOP_PROGRAM_WORKER,
	PRIVOP_N_PROGRAMS,
};

#define PRIVOP_SPAWN_WRITER 2  /* killed first when memory runs out */
#define PRIVOP_SPAWN_DIES 4    /* ends with the keeper */
#define PRIVOP_SPAWN_OUTPUT 8  /* the last fd is its stdout and stderr, instead of /dev/null */
#define PRIVOP_SPAWN_SYSTEM 16 /* runs as the system user; uid and gid are ignored */
#define PRIVOP_SPAWN_SERVER 32 /* killed last when memory runs out */
#define PRIVOP_SPAWN_GROUPS 64 /* runs in the groups of PRIVOP_HOLD_GROUP */

#define PRIVOP_MAX_FDS 16
#define PRIVOP_PLACE_SECONDS 2
#define PRIVOP_MAX_ARGS 12
#define PRIVOP_TEXT_SIZE (PATH_MAX + 1024)

/* The hierarchies of cgroups v1 in which a job has a directory. In v2 there is one, which counts as
 * the first. */
enum privop_group {
	PRIVOP_GROUP_MEMORY,
	PRIVOP_GROUP_CPUS,
	PRIVOP_GROUP_DEVICES,
	PRIVOP_N_GROUPS,
};

struct privop {
	uint32_t kind;
	int32_t r;
	uint32_t dir, dir2;
	uint32_t name, name2;
	uid_t uid;
	gid_t gid;
	int64_t n[3];
	char text[PRIVOP_TEXT_SIZE];
};

/* There is no padding, whose bytes would be sent uninitialized. */
_Static_assert(sizeof(struct privop) ==
		       8 * sizeof(uint32_t) + 3 * sizeof(int64_t) + PRIVOP_TEXT_SIZE,
	       "struct privop has padding");

/* /run is in memory, so records, counts and sentences in it are limited: a record of all processes
 * and tiers that a job can have takes 74 KiB. The number of directories that one keeper makes is
 * limited, too, also in tiers. */
#define PRIVOP_MAX_RECORD (256 << 10)
#define PRIVOP_MAX_DIRS 64
/* Children of one keeper that the manager has requested by PRIVOP_SPAWN and PRIVOP_PLACE, and that
 * have not ended: those that a record can have, and some that a user delays. Then both operations
 * fail with -EAGAIN. Children that do other operations are not counted: root waits for one of them
 * for five seconds at most, and one that cannot be killed then stays. */
#define PRIVOP_MAX_CHILDREN 288
#define PRIVOP_MAX_CPUS 8192	  /* bits of the set for PRIVOP_FOLLOW */
#define PRIVOP_MAX_FILE (4 << 20) /* size of other files that processes of the system user write */

/* Descriptors of the manager at its start: */
#define MANAGER_FD_KEEPER 3
#define MANAGER_FD_SPEC 4 /* for a run: the spec from the plugin */
