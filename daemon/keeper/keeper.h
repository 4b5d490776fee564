/*
 * keeper: the objects that a stage-keeper holds for its manager, and one function for each
 * privileged operation of common/protocol/keeper-privops.h. A function does only what its operation
 * describes. It returns the field r of the answer: 0 or more, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-privops.h"
#include "daemon/keeper/process-start.h"

/* Facts that a stage-helper looks up for root (ask.c). */
struct ask {
	pid_t pid; /* 0: not started */
	int fd;	   /* file in memory for the answer; -1: closed */
	int r;	   /* -EINPROGRESS: no answer yet; 0 or more: the answer is complete; another
		    * -errno: it failed */
};

/* A FUSE mount. Its connection must be found even if the user has unmounted it. */
struct slot {
	int fd;	 /* O_PATH, open from the mount, or the first use, until we unmount it; -1: none */
	long id; /* id of the mount (mount_get_id()) */
	unsigned minor; /* of its device, which is also the connection's name; 0: no connection */
};

#define KEEPER_MAX_LOG (8 << 20) /* bytes in the site's log from one keeper's manager */

struct keeper {
	uid_t uid; /* of the job; 0: this is a clean-up, which serves no job */
	gid_t gid;
	uid_t system_uid; /* uid of the system user; 0: not known */
	gid_t system_gid;
	uint32_t job;	   /* 0: all of them */
	const char *sluid; /* of the job, which may be the name of its cgroup; NULL: not known */
	const char *conf;  /* path of the configuration; NULL: the usual one */
	const char *node;  /* its name of this node; NULL: the host's */
	struct ask site, account, path;
	int64_t path_of;	  /* number of the tier whose path was asked for last */
	struct process_user user; /* the job's user, after the account was found */
	int sock;		  /* socket to the manager */
	int answer_fd;		  /* pipe to the plugin; -1: it has its answer */
	pid_t manager;
	pid_t children[PRIVOP_MAX_CHILDREN]; /* those that count; 0: a free entry */
	int go_fd;			     /* starts the child that was spawned last */
	int control_fd; /* the kernel's directory of FUSE connections; -1: not opened yet */
	struct slot slots[RUNDIR_MAX_SLOTS];
	int programs[PRIVOP_N_PROGRAMS];
	int log_fd;		      /* the site's log; -1: not open */
	size_t log_left;	      /* bytes that may still be written */
	int text_fd;		      /* the new metrics file, while it is written; -1: none */
	int dirs[PRIVOP_N_DIRS];      /* by the number of the directory; -1: none */
	int locks[PRIVOP_N_DIRS];     /* lock files whose locks we hold; -1: none */
	uint32_t jobs[PRIVOP_N_DIRS]; /* ids of the jobs to which the directories belong */
	struct rundir_mark marks[PRIVOP_N_DIRS]; /* root's marks: the users of these jobs */
	unsigned n_made;			 /* number of directories that were made */
	int groups[PRIVOP_N_GROUPS];		 /* the job's cgroups; -1: not open */
};

#define KEEPER_INIT                                                                                \
	{                                                                                          \
		.sock = -1, .answer_fd = 2, .go_fd = -1, .control_fd = -1,                         \
		.slots = { [0 ... RUNDIR_MAX_SLOTS - 1].fd = -1 },                                 \
		.programs = { [0 ... PRIVOP_N_PROGRAMS - 1] = -1 }, .site = { .fd = -1 },          \
		.account = { .fd = -1 }, .path = { .fd = -1 }, .log_fd = -1,                       \
		.log_left = KEEPER_MAX_LOG, .text_fd = -1,                                         \
		.dirs = { [0 ... PRIVOP_N_DIRS - 1] = -1 },                                        \
		.locks = { [0 ... PRIVOP_N_DIRS - 1] = -1 },                                       \
		.groups = { [0 ... PRIVOP_N_GROUPS - 1] = -1 },                                    \
	}

/* A privileged operation, and the descriptors that its answer carries. They are closed after it was
 * sent. */
struct call {
	struct privop *a;
	int dir, dir2;	   /* the directories with the numbers a->dir and a->dir2; -1: none */
	char name[64];	   /* the name of a->name in a->dir; "": none */
	struct slot *slot; /* its fd moves to a child, and root closes it; NULL: none */
	int out[PRIVOP_MAX_FDS];
	size_t n_out;
};

typedef int (*privop_fn)(struct keeper *k, struct call *c);

/* Runs fn in a child process, because it may wait for a user or a user's server. Of root's
 * descriptors, the child has c->dir, c->slot, the open cgroups and a socket (fd 0), through which
 * it returns the call with the result of fn. It ends after CHILD_S seconds, and with its keeper.
 * Its changes of k are lost. Returns its pid or -errno, and our end of the socket. */
#define CHILD_S 5
pid_t child_start(struct keeper *k, struct call *c, privop_fn fn);
/* Runs fn in a child and waits CHILD_S seconds at most. Copies the child's answer and its
 * descriptors to c. Returns the result of fn, or -errno. -ETIMEDOUT: root does not wait any longer,
 * and the child may still complete its operation. */
int child_do(struct keeper *k, struct call *c, privop_fn fn);
/* Must be called before root ends with status r. Shuts down the socket. If it still contains
 * packets, a child keeps them. Returns r. */
int child_hold(int sock, int r);

/* Finds the entry of a child that counts (pid 0: a free one); NULL: there is none. */
pid_t *child_find(struct keeper *k, pid_t pid);

/* Does one privileged operation. The caller owns the descriptors in c->out. */
void privop_do(struct keeper *k, struct call *c);

/* Adds fd to the answer. If fd is negative, returns -errno. Otherwise returns 0. */
int privop_give(struct call *c, int fd);

/* Returns the slot that a privileged operation names; NULL: none. */
struct slot *slot_get(struct keeper *k, const struct privop *a);
/* Opens the slot's directory, which the call names, if it is not open yet. Sends no request to a
 * FUSE server. */
void slot_open(struct slot *s, const struct call *c);

/* Returns the id of fd's mount, from its fdinfo, which sends no request to a file system. -1: it
 * cannot be read. */
long mount_get_id(int fd);

/* Opens path beneath dir (O_PATH), without following links and without leaving dir's mount, so that
 * no user's server gets a request. Changes path. Returns an fd or -errno; -EXDEV: something is
 * mounted on a part of the path. */
int privop_open_below(int dir, char *path);

/* Opens the top of the job's tmpfs, which the call names. Returns an fd (O_PATH) or -errno; -EPERM:
 * the tmpfs is not mounted, or this is not a tmpfs of root. */
int privop_open_memory(const struct call *c);

/* mount_copy() makes a detached copy of a mount, or of its part below dirfd and name (flags:
 * AT_EMPTY_PATH). It returns an fd or -errno. mount_attach() mounts the copy tree on target. It
 * returns 0 or -errno. */
int mount_copy(int dirfd, const char *name, int flags);
int mount_attach(int tree, int target);

/* For a child: enters the mount namespace of the file ns_path, stays in it, and mounts tree there
 * on path, below the directory dir. Returns 0, also if the namespace is not made yet, or -errno. */
int repeat_attach(int tree, int dir, const char *path, const char *ns_path);

/* Returns true if that name may exist in that directory. */
bool privop_is_place(uint32_t dir, uint32_t name);

/* Returns true if the keeper may use the object that the privileged operation names. A job's keeper
 * may use the objects of its job. It may also clean up directories of other jobs that were moved
 * aside, because these jobs are over. */
bool privop_is_ours(const struct keeper *k, const struct privop *a);

/* Returns true if this is the keeper of a running job, and the directory belongs to another job
 * that may be another user's. A manager that could change that job's record could let the reaper
 * remove data of other users. A leftover with the job's own number does not count as another job's:
 * it has to be ended first, for which its record is needed. A directory of another user that was
 * moved aside does count, whatever its number. */
bool privop_is_others(const struct keeper *k, uint32_t dir);

/* Returns true if uid is the job's user, or, in a clean-up, the user of a job whose directory is
 * open; never for root or the system user. If so, *gidp is the job's group. */
bool privop_is_users(const struct keeper *k, uid_t uid, gid_t *gidp);
/* Returns the user whose job the directory belongs to; 0: not known (yet). Fills mark. */
uid_t dir_find_owner(int dir, struct rundir_mark *mark);

/* Prints the name that an enum privop_name means with the numbers n. */
void privop_print_name(char buf[static 64], uint32_t name, const int64_t *n);

/* Parses a line of /proc/<pid>/stat. Returns 0, or -EPROTO: it is malformed. The user chooses the
 * process's name in it, which may contain blanks and brackets. A zombie with remaining threads has
 * the state 'D', because its threads still hold their objects. */
int proc_parse_stat(const char *line, uint64_t *startp, char *statep, pid_t *parentp);

void ask_fill_system_user(const struct keeper *k, struct process_user *user);

/* Start the helper, unless this was done before. Return r of the ask, or why the helper cannot be
 * started now; then the caller may try again. */
int ask_site(struct keeper *k);
int ask_user(struct keeper *k);
/* Checks that the tier with the number which has this path for this job. Returns 0; -EINPROGRESS:
 * call again later; -ENOENT: it has another path; or why the path is not known. */
int ask_tier(struct keeper *k, int64_t which, const char *path);
/* Takes the exit status of a child, and its answer, if the child is one of these helpers. */
void ask_end(struct keeper *k, pid_t pid, int status);
/* ask_is_pending() returns true if the child is one of these helpers and has not ended.
 * ask_get_site() returns the settings, or NULL if they are not known. */
bool ask_is_pending(const struct keeper *k, pid_t pid);
const struct helper_site *ask_get_site(const struct keeper *k);

/* The operations of common/protocol/keeper-privops.h, which has their arguments and results. The
 * comment on each one says what an attacker gains by it who has taken over the manager of a running
 * job and chooses each field of the request. docs/attacks.md has the bounds, with their tests. */

/* Gain: the settings of the site's configuration. */
int privop_site(struct keeper *k, struct call *c);
/* Gain: nothing: a descriptor that cannot be used for listing. */
int privop_open_base(struct keeper *k, struct call *c);
/* Gain: the list of names in a tier; a directory of root is a tier for root if it contains one
 * of our names. */
int privop_open_tier(struct keeper *k, struct call *c);
/* Gain: the user of each job that has data on this node; its record, if the job is over. */
int privop_open_dir(struct keeper *k, struct call *c);
/* Gain: nothing: a clean-up can begin earlier. */
int privop_close_dir(struct keeper *k, struct call *c);
/* Gain: the ids of the jobs that have data on this node. */
int privop_list(struct keeper *k, struct call *c);
/* Gain: nothing that PRIVOP_OPEN_DIR does not show. */
int privop_check_dir(struct keeper *k, struct call *c);
/* Gain: empty directories with our names, PRIVOP_MAX_DIRS at most. */
int privop_make_dir(struct keeper *k, struct call *c);
/* Gain: a directory of this job, or one that was moved aside, gets another of our names, by
 * which a clean-up finds it later. */
int privop_rename(struct keeper *k, struct call *c);
/* Gain: this job's files and empty directories disappear, and those that were moved aside. */
int privop_remove(struct keeper *k, struct call *c);
/* Gain: the text of a record, reason or count that is in a directory which is open. */
int privop_open_file(struct keeper *k, struct call *c);
/* Gain: a false record, reason or count for this job; in a clean-up, staging is off on the node
 * for an hour. */
int privop_write(struct keeper *k, struct call *c);
/* Gain: a clean-up of this job waits until the keeper ends. */
int privop_lock(struct keeper *k, struct call *c);
/* Gain: false answers to this job's stagectl. */
int privop_bind(struct keeper *k, struct call *c);
/* Gain: a tmpfs for this job, as large as the node's memory; what is written to it is charged to
 * the job. */
int privop_memory(struct keeper *k, struct call *c);
/* Gain: the same, or a tmpfs that is too small for the data. */
int privop_resize(struct keeper *k, struct call *c);
/* Gain: false data for this job's user, as from any FUSE file system of the user. */
int privop_slot(struct keeper *k, struct call *c);
/* Gain: this job's data disappears; a clean-up: that of jobs that are over. */
int privop_detach(struct keeper *k, struct call *c);
/* Gain: mounts in this job's tmpfs and tier, and in the data that its user keeps, disappear. */
int privop_detach_below(struct keeper *k, struct call *c);
/* Gain: this job's mounts are visible in a mount namespace of the node where the same run
 * directory is. */
int privop_repeat(struct keeper *k, struct call *c);
/* Gain: the job sees a file that its user owns on the path of another dataset. */
int privop_place(struct keeper *k, struct call *c);
/* Gain: the number of requests that this job's image server has not answered. */
int privop_open_waiting(struct keeper *k, struct call *c);
/* Gain: this job's reads from an image fail. */
int privop_abort(struct keeper *k, struct call *c);
/* Gain: whether an account exists. */
int privop_user(struct keeper *k, struct call *c);
/* Gain: our programs run as the job's user, or our helper as the system user, with any numbers
 * and paths as words; in a clean-up, three tasks of the helper run as any user. */
int privop_spawn(struct keeper *k, struct call *c);
/* Gain: the last child begins, or ends. */
int privop_go(struct keeper *k, struct call *c);
/* Gain: the start time of any process. */
int privop_look(struct keeper *k, struct call *c);
/* Gain: processes of the job's user end, also those of his other jobs; this job's keepers end. */
int privop_kill(struct keeper *k, struct call *c);
/* Gain: this job is not staged. */
int privop_kill_children(struct keeper *k, struct call *c);
/* Gain: the keeper runs on other CPUs. */
int privop_follow(struct keeper *k, struct call *c);
/* Gain: the command lines of all users, if the site hides them with hidepid=. */
int privop_open_proc(struct keeper *k, struct call *c);
/* Gain: the keeper's children run in this job's cgroups. */
int privop_hold_group(struct keeper *k, struct call *c);
/* Gain: the same. */
int privop_enter_groups(struct keeper *k, struct call *c);
/* Gain: what this job's processes do for staging ends; in the reaper's clean-up, that of any
 * job. */
int privop_remove_group(struct keeper *k, struct call *c);
/* Gain: keeper and manager are charged to a cgroup that belongs to no job. */
int privop_join_group(struct keeper *k, struct call *c);
/* Gain: nothing: the descriptor stays with root. */
int privop_open_log(struct keeper *k, struct call *c);
/* Gain: false metrics of the node. */
int privop_text(struct keeper *k, struct call *c);
/* Gain: false lines in the site's log, KEEPER_MAX_LOG bytes at most. */
int privop_log(struct keeper *k, struct call *c);
/* Gain: the plugin gets a false reason for a failure. */
int privop_answer(struct keeper *k, struct call *c);
