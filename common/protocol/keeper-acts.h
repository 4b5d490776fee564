/*
 * keeper-acts: what stage-steward, which decides and runs as the system user, has stage-keeper do,
 * which is root and decides nothing.
 *
 * One packet an act on a SOCK_SEQPACKET pair, of a fixed size, descriptors beside it; each is
 * answered by the same packet: r is 0 or more, or -errno. Root parses nothing: names are numbers,
 * and what is a text is a path that it opens with checks of its own, or words for a program of ours.
 * A packet of the wrong size or an act that does not exist ends the conversation, and with it the
 * keeper. In common/ because both programs need it.
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/rundir.h"

enum act_kind {
	/* Directories and names in them: dir, name, n: the numbers in the name (enum act_name). */
	ACT_OPEN_BASE = 1, /* dir: ACT_DIR_RUN or _TRASH, made where it is missing. An fd */
	ACT_OPEN_TIER,     /* text: path of a disk tier, ACT_DIR_TIER from now on. An fd; -EPERM: it is not
			    * root's, link by link */
	ACT_OPEN_DIR,      /* a job's; r: its number from now on; an fd */
	ACT_CLOSE_DIR,     /* dir */
	ACT_CHECK_DIR,     /* dir2 is still the directory of that name: r 0; 1: it is not */
	ACT_MAKE_DIR,      /* n[2]: its mode, and ACT_MAKE_* */
	ACT_RENAME,        /* to name2 (with the same numbers) in dir2 */
	ACT_REMOVE,        /* A file or an empty directory; of a tier, with the user's in it */
	ACT_OPEN_FILE,     /* dir, name: enum act_file. An fd */
	ACT_BIND,          /* dir. Makes the job's socket, the user's. An fd */

	/* Mounts: on that name in dir */
	ACT_MEMORY,        /* dir, n: bytes, inodes. Mounts the job's tmpfs, root's, and makes the
			    * user's directories in it (common/protocol/rundir.h) */
	ACT_RESIZE,        /* dir, n: bytes */
	ACT_SLOT,          /* name, n: slot, number of fds. Mounts a FUSE slot; the fds, of which root has no
			    * copy */
	ACT_DETACH,        /* n[2]: 1: what is topmost; 0: whatever is mounted there, lazily */
	ACT_DETACH_BELOW,  /* text: path below ACT_DIR_TIER, no link and no "..". Detaches what is topmost
			    * there; -EXDEV: something is mounted on the way */
	ACT_REPEAT,        /* text: a mount namespace, where the mount is repeated */
	ACT_OPEN_WAITING,  /* dir, name (a slot's): how many requests of its connection wait for an answer.
			    * An fd; -ENOENT: it has no connection */
	ACT_ABORT,         /* dir, name (a slot's), whose connection is broken; the same */

	/* Processes */
	ACT_SITE,          /* What root has looked up for itself: an fd of a struct hand_site */
	ACT_ACCOUNT,       /* The same of the job's user; r: 1: there is one; 0: there is none. Both: -EINPROGRESS:
			    * not yet, an ACT_EXITED comes; else why not, and it may be tried again */
	ACT_SPAWN,         /* name: enum act_program, uid, gid, n: ACT_SPAWN_*, nice, number of words; text:
			    * the words, each ended by NUL; fds: become its 3, 4, …, and its output. r: pid,
			    * n[1]: start. It waits for ACT_GO. The words are those behind "stage-hand", a
			    * chore first; other programs are given theirs by root, are the job's user's, with
			    * the account's groups, and wait for ACT_ACCOUNT */
	ACT_CHECK_PROGRAM, /* n: enum act_program. Is it there? -EPERM: not root's alone */
	ACT_GO,            /* n: 1: the last one spawned may begin; 0: it ends */
	ACT_LOOK,          /* n: pid. r: 1: it is stopped; n[1]: its start; -ESRCH, of a zombie, too */
	ACT_KILL,          /* n: pid, start (0: a child of ours), signal. -ESRCH; -EPERM: neither a process of the job's
			    * user (in a clean-up: of one whose directory is open) nor a keeper of such a job */
	ACT_KILL_CHILDREN, /* all but the steward and what root itself asks for, orphans of theirs included. r: how many there were */
	ACT_FOLLOW,        /* text: a set of CPUs to be on */
	ACT_OPEN_PROC,     /* The node's processes, where possible without hidepid=. An fd (O_PATH) */

	/* Cgroups, below cgroup file systems alone */
	ACT_HOLD_GROUP,    /* n: enum act_group; text: the job's directory in that hierarchy. It is where
			    * ACT_SPAWN_GROUPS leads from now on; of the memory ACT_GROUP in it, which is
			    * made */
	ACT_ENTER_GROUPS,  /* n: pid of a child of ours, which goes to all groups that are held */
	ACT_REMOVE_GROUP,  /* n: enum act_group, 1: the job is over; text: as for ACT_HOLD_GROUP. Of the memory
			    * ACT_GROUP, and what is in it is killed; the job's directory if it is over,
			    * and that is empty */
	ACT_JOIN_GROUP,    /* text: a file tasks or cgroup.procs, that we and the steward go to */

	/* The site's files */
	ACT_OPEN_LOG,      /* Once. An fd, of a pipe, to what root appends to the log; -EPERM: a directory on its
			    * way is not root's alone */
	ACT_TEXT,          /* The file of figures; n: 0: makes a new one beside it, which is fd 3 of the chore
			    * "metrics" then; 1: that one gets the name. -EPERM: the same */

	ACT_N,

	/* What the keeper says by itself */
	ACT_EXITED,        /* n: pid, status as of waitpid(2), of a child: it is reaped */
	ACT_OVER,          /* the keeper was told to end */
};

/* What is called so, with the numbers n[0] and n[1]. */
enum act_name {
	ACT_NAME_SOCK, /* in a job's directory */
	ACT_NAME_FAILED,
	ACT_NAME_STATE,
	ACT_NAME_STATE_NEW,
	ACT_NAME_LOCK,
	ACT_NAME_MOUNTS,
	ACT_NAME_MEMORY,
	ACT_NAME_SLOT,       /* slot */
	ACT_NAME_CRASHES,    /* in STAGE_RUN_DIR */
	ACT_NAME_BREAKER,
	ACT_NAME_JOB,        /* job */
	ACT_NAME_JOB_ASIDE,  /* job, ms; in .trash */
	ACT_NAME_TIER,       /* job; in a tier */
	ACT_NAME_TIER_ASIDE, /* job, ms */
	ACT_NAME_KEEP,       /* uid */
	ACT_N_NAMES,
};

/* How they are opened */
enum act_file {
	ACT_FILE_LOCK,
	ACT_FILE_LOCK_LOOK, /* not made */
	ACT_FILE_STATE,
	ACT_FILE_STATE_NEW,
	ACT_FILE_FAILED,
	ACT_FILE_FAILED_NEW,
	ACT_FILE_CRASHES,
	ACT_FILE_CRASHES_NEW, /* to append to */
	ACT_FILE_BREAKER_NEW,
	ACT_FILE_METRICS,
	ACT_N_FILES,
};

enum act_dir {
	ACT_DIR_RUN,
	ACT_DIR_TRASH,
	ACT_DIR_TIER,
	ACT_DIR_FREE, /* from here on by ACT_OPEN_DIR */
	ACT_N_DIRS = 7,
};

#define ACT_MAKE_USERS 01000000 /* in ACT_DIR_TIER. ACT_NAME_KEEP becomes the job's user's, and may be
				 * there; ACT_NAME_TIER is root's,
				 * 0711, with a directory of his in it (common/protocol/tier-name.h) */

enum act_program {
	ACT_PROGRAM_HAND,
	ACT_PROGRAM_DAEMON,
	ACT_PROGRAM_WORKER,
	ACT_N_PROGRAMS,
};

#define ACT_SPAWN_WRITER 2  /* the first to be killed when memory runs out */
#define ACT_SPAWN_DIES 4    /* with the keeper */
#define ACT_SPAWN_OUTPUT 8  /* the last fd is its stdout and stderr, else /dev/null */
#define ACT_SPAWN_SYSTEM 16 /* as the system user; uid and gid are not looked at */
#define ACT_SPAWN_SERVER 32 /* the last to be killed when memory runs out */
#define ACT_SPAWN_GROUPS 64 /* in the groups of ACT_HOLD_GROUP */

#define ACT_MAX_FDS 16
#define ACT_MAX_ARGS 12
#define ACT_TEXT_SIZE (PATH_MAX + 1024)

/* Hierarchies of cgroups v1 where a job has a directory. In v2 it has one, which counts as the first. */
enum act_group {
	ACT_GROUP_MEMORY,
	ACT_GROUP_CPUS,
	ACT_GROUP_DEVICES,
	ACT_N_GROUPS,
};

/* Our group of a job's memory, in the job's directory beside the steps. The others need none of their
 * own: a set of CPUs that is below the job's would keep Slurm from changing that. */
#define ACT_GROUP "stage-data"

struct act {
	uint32_t kind;
	int32_t r;
	uint32_t dir, dir2;
	uint32_t name, name2;
	uid_t uid;
	gid_t gid;
	int64_t n[3];
	char text[ACT_TEXT_SIZE];
};

/* The steward writes records, counts and sentences: in /run, which is memory, none of them grows beyond this. */
#define STEWARD_MAX_FILE (4 << 20)

/* Descriptors that the steward is started with: */
#define STEWARD_FD_KEEPER 3
#define STEWARD_FD_SPEC 4   /* run: the plugin's */
#define STEWARD_FD_STATUS 5 /* run: to the plugin */
