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
	/* Directories and names in them: dir, name, n: the numbers in the name (enum privop_name).
	 */
	PRIVOP_OPEN_BASE = 1, /* dir: PRIVOP_DIR_RUN or _TRASH, made where it is missing. An fd
			       * (O_PATH: see PRIVOP_LIST) */
	PRIVOP_OPEN_TIER, /* text: path of a disk tier, PRIVOP_DIR_TIER from now on; n: which one
			   * it is in the configuration (struct helper_path), -1: in none. An fd;
			   * -EPERM: it is not root's, link by link; -ENOENT: nothing of ours stands
			   * in it, and the configuration does not name it; -EINPROGRESS: as for
			   * PRIVOP_SITE */
	PRIVOP_OPEN_DIR,  /* a job's; r: its number from now on; uid, gid: whose it is by root's
			   * mark, 0: not known; an fd (O_PATH) */
	PRIVOP_CLOSE_DIR, /* dir */
	PRIVOP_CHECK_DIR, /* dir2 is still the directory of that name: r 0; 1: it is not */
	PRIVOP_MAKE_DIR,  /* A job's own and its `mounts`: root's, 0711. In PRIVOP_DIR_TIER:
			   * PRIVOP_NAME_KEEP becomes the job's user's, and may be there;
			   * PRIVOP_NAME_TIER is root's, 0711, with a directory of his in it
			   * (common/protocol/tier-name.h). -EPERM: any other; -EDQUOT: these were
			   * PRIVOP_MAX_DIRS, PRIVOP_NAME_KEEP not counted */
	PRIVOP_RENAME,	  /* to name2 (with the same numbers) in dir2 */
	PRIVOP_REMOVE,	  /* A file or an empty directory; of a tier, with the user's in it */
	PRIVOP_OPEN_FILE, /* dir, name: enum privop_file. An fd to read by */
	PRIVOP_BIND,	  /* dir. Makes the job's socket, the user's. An fd */

	/* Mounts: on that name in dir */
	PRIVOP_MEMORY, /* dir, n: bytes, inodes. Mounts the job's tmpfs, root's, and makes the
			* user's directories in it (common/protocol/rundir.h) */
	PRIVOP_RESIZE, /* dir, n: bytes */
	PRIVOP_SLOT, /* name, n: slot, number of fds. Mounts a FUSE slot; the fds, of which root has
		      * no copy */
	PRIVOP_DETACH,	     /* n[2]: 1: what is topmost; 0: whatever is mounted there, lazily */
	PRIVOP_DETACH_BELOW, /* text: path below PRIVOP_DIR_TIER, of a job that is open or of what
			      * the job's user keeps, or below the tmpfs (name:
			      * PRIVOP_NAME_MEMORY), no link and no "..". Detaches what is topmost
			      * there; -EXDEV: something is mounted on the way */
	PRIVOP_REPEAT,	     /* text: a mount namespace, where the mount is repeated */
	PRIVOP_OPEN_WAITING, /* dir, name (a slot's): how many requests of its connection wait for
			      * an answer. An fd; -ENOENT: it has no connection */
	PRIVOP_ABORT,	     /* dir, name (a slot's), whose connection is broken; the same */

	/* Processes */
	PRIVOP_SITE,  /* What root has looked up for itself: an fd of a struct helper_site */
	PRIVOP_USER,  /* The same of the job's user; r: 1: there is one; 0: there is none. Both:
		       * -EINPROGRESS:  not yet, an PRIVOP_EXITED comes; else why not, and it may be
		       * tried again */
	PRIVOP_SPAWN, /* name: enum privop_program, uid, gid, n: PRIVOP_SPAWN_*, nice, number of
		       * words; text: the words, each ended by NUL. r: pid, n[1]: start. An fd, of a
		       * socket: what comes beside a packet of one byte in it becomes its 3, 4, …,
		       * and its output. It waits for PRIVOP_GO, and takes them then; where the
		       * socket was closed there are none. The words are those
		       * behind "stage-helper", a task first; other programs are given theirs by
		       * root, are the job's user's, with the account's groups, and wait for
		       * PRIVOP_USER */
	PRIVOP_CHECK_PROGRAM, /* n: enum privop_program. Is it there? -EPERM: not root's alone */
	PRIVOP_GO,	      /* n: 1: the last one spawned may begin; 0: it ends */
	PRIVOP_LOOK, /* n: pid. r: 1: it is stopped; n[1]: its start; n[2]: 1: its program is
		      * Slurm's step daemon; -ESRCH, of a zombie, too */
	PRIVOP_KILL, /* n: pid, start (0: a child of ours), signal: SIGKILL, SIGTERM or SIGCONT.
		      * -ESRCH; -EPERM: another signal; or neither a process of the job's user (in a
		      * clean-up: of one whose directory is open) nor a keeper of such a job. For a
		      * job's keeper that is a run, not a clean-up */
	PRIVOP_KILL_CHILDREN, /* all but the manager and what root itself asks for, orphans of
				 theirs included. r: how many there were */
	PRIVOP_FOLLOW,	      /* text: a set of CPUs to be on */
	PRIVOP_OPEN_PROC, /* The node's processes, where possible without hidepid=. An fd (O_PATH)
			   */

	/* Cgroups, below cgroup file systems alone */
	PRIVOP_HOLD_GROUP, /* n: enum privop_group; text: the job's directory in that hierarchy. It
			    * is where PRIVOP_SPAWN_GROUPS leads from now on; of the memory
			    * JOB_CGROUP_OURS in it, which is made */
	PRIVOP_ENTER_GROUPS, /* n: pid of a child of ours, which goes to all groups that are held */
	PRIVOP_REMOVE_GROUP, /* n: enum privop_group, 1: the job is over; text: as for
			      * PRIVOP_HOLD_GROUP. Of the memory JOB_CGROUP_OURS, with all of
			      * its processes; the job's directory if it is over, and empty */
	PRIVOP_JOIN_GROUP,   /* text: a file tasks or cgroup.procs, that we and the manager go to */

	/* The site's files */
	PRIVOP_OPEN_LOG, /* Once. -EPERM: a directory on its way is not root's alone */
	PRIVOP_TEXT, /* The file of figures; n: 0: makes a new one beside it, which is fd 3 of the
		      * task "metrics" then; 1: that one gets the name. -EPERM: the same */

	/* More of directories */
	PRIVOP_WRITE, /* dir, name: enum privop_file, n: bytes of text, 1: they come after those
		       * that were written before. No file grows beyond PRIVOP_MAX_RECORD; the
		       * manager gets no descriptor that could be written to */
	PRIVOP_LOCK,  /* dir, n: enum privop_lock. The keeper itself holds the lock of a job's
		       * directory, so it is free when the keeper is gone. -EBUSY: another has
		       * it */

	/* More of mounts */
	PRIVOP_PLACE, /* name: PRIVOP_NAME_MEMORY; text: a path below the tmpfs, and after its NUL a
		       * mount namespace or nothing; n[0]: 1: read-only. An fd, of a socket: the fd
		       * that comes beside a packet of one byte in it is bind mounted on what is
		       * there, nosuid, nodev and private; in that namespace, too. There must be the
		       * user's directory or file, of RUNDIR_PLACE_MODE. The fd is what the user
		       * owns, or in one of the job's slots. The operation comes back by it, r: 0;
		       * or -errno, and it may be mounted. Nothing in PRIVOP_PLACE_SECONDS: it may
		       * be mounted yet */

	/* Texts. The manager shares no pipe with root */
	PRIVOP_LOG,    /* text: lines for the site's log, as many bytes as are left; -EBADF: it is
			* not open */
	PRIVOP_ANSWER, /* text: what the plugin reads; once, then it hears no more */

	/* What is in a directory of root's. The manager has no descriptor to list it by: it could
	 * do that into memory that a FUSE server backs, and the kernel would keep the directory's
	 * lock */
	PRIVOP_LIST, /* dir: PRIVOP_DIR_RUN or _TRASH; n: 1: from the beginning. r: bytes of text,
		      * which are entries as of getdents64(2); 0: there are no more */

	PRIVOP_N,

	/* Messages that the keeper sends without a request */
	PRIVOP_EXITED, /* n: pid, status as of waitpid(2), of a child: it is reaped */
	PRIVOP_OVER,   /* the keeper was told to end */
};

/* What is called so, with the numbers n[0] and n[1]. */
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
	PRIVOP_FILE_STATE, /* not to be written */
	PRIVOP_FILE_STATE_NEW,
	PRIVOP_FILE_FAILED,
	PRIVOP_FILE_CRASHES, /* what is written comes at its end, in a clean-up alone */
	PRIVOP_FILE_BREAKER, /* is made, in a clean-up alone */
	PRIVOP_FILE_METRICS, /* is written over */
	PRIVOP_N_FILES,
};

enum privop_lock {
	PRIVOP_LOCK_TAKE, /* until PRIVOP_LOCK_FREE or PRIVOP_CLOSE_DIR */
	PRIVOP_LOCK_FREE,
	PRIVOP_LOCK_LOOK, /* r 0: nobody has it */
	/* Two numbers of the reaper's, which follow root's mark in the file (leftover.h) */
	PRIVOP_LOCK_WRITE, /* n[1], n[2] */
	PRIVOP_LOCK_READ,  /* the same, in the answer; 0: none were written */
};

enum privop_dir {
	PRIVOP_DIR_RUN,
	PRIVOP_DIR_TRASH,
	PRIVOP_DIR_TIER,
	PRIVOP_DIR_FREE, /* from here on by PRIVOP_OPEN_DIR */
	PRIVOP_N_DIRS = 7,
};

enum privop_program {
	PRIVOP_PROGRAM_HELPER,
	PRIVOP_PROGRAM_DAEMON,
	PRIVOP_PROGRAM_WORKER,
	PRIVOP_N_PROGRAMS,
};

#define PRIVOP_SPAWN_WRITER 2  /* the first to be killed when memory runs out */
#define PRIVOP_SPAWN_DIES 4    /* with the keeper */
#define PRIVOP_SPAWN_OUTPUT 8  /* the last fd is its stdout and stderr, else /dev/null */
#define PRIVOP_SPAWN_SYSTEM 16 /* as the system user; uid and gid are not looked at */
#define PRIVOP_SPAWN_SERVER 32 /* the last to be killed when memory runs out */
#define PRIVOP_SPAWN_GROUPS 64 /* in the groups of PRIVOP_HOLD_GROUP */

#define PRIVOP_MAX_FDS 16
#define PRIVOP_PLACE_SECONDS 2
#define PRIVOP_MAX_ARGS 12
#define PRIVOP_TEXT_SIZE (PATH_MAX + 1024)

/* Hierarchies of cgroups v1 where a job has a directory. In v2 it has one, which counts as the
 * first. */
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

/* /run is memory. Records, counts and sentences in it have a bound: a record of all processes and
 * tiers that a job can have takes 74 KiB. So has the number of directories that one keeper makes,
 * in tiers as well. */
#define PRIVOP_MAX_RECORD (256 << 10)
#define PRIVOP_MAX_DIRS 64
#define PRIVOP_MAX_CPUS 8192	  /* bits of the set of PRIVOP_FOLLOW */
#define PRIVOP_MAX_FILE (4 << 20) /* elsewhere, of what the system user's processes write */

/* Descriptors that the manager is started with: */
#define MANAGER_FD_KEEPER 3
#define MANAGER_FD_SPEC 4 /* run: the plugin's */
