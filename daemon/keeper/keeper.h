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
	pid_t pid; /* 0: not begun */
	int fd;	   /* where the answer comes; -1: no more */
	size_t n;  /* bytes of it that have come */
	int r;	   /* -EINPROGRESS: not there yet; 0 or more; or why there is none */
};

/* A FUSE mount. Its user may unmount it, and its connection has to be found nevertheless. */
struct slot {
	int fd; /* O_PATH, from when it was mounted or first asked for until we unmount it; -1: none
		 */
	long id;	/* of the mount, as mount_get_id() */
	unsigned minor; /* of its device, which is the connection's name; 0: it has none */
};

#define KEEPER_MAX_LOG (8 << 20) /* of what one keeper's manager says */

struct keeper {
	uid_t uid; /* of the job; 0: none is served, this is a clean-up */
	gid_t gid;
	uid_t system_uid; /* of the system user; 0: not known */
	gid_t system_gid;
	uint32_t job;	   /* 0: all of them */
	const char *sluid; /* of the job, which may be the name of its cgroup; NULL: not known */
	const char *conf;  /* path of the configuration; NULL: the usual one */
	const char *node;  /* its name of this node; NULL: the host's */
	struct ask site, account, path;
	int64_t path_of;	  /* the tier that path is asked for */
	struct process_user user; /* the job's, when the account is known */
	int sock;		  /* to the manager */
	int answer_fd;		  /* of the plugin, until it has its answer; -1: none */
	pid_t manager;
	int go_fd;	/* of what was spawned last */
	int control_fd; /* the tree of FUSE connections; -1: not opened yet */
	struct slot slots[RUNDIR_MAX_SLOTS];
	int programs[PRIVOP_N_PROGRAMS];
	int log_fd;		      /* the site's log; -1: none */
	size_t log_left;	      /* bytes that may be written yet */
	int text_fd;		      /* of the figures, as long as they are written; -1: none */
	int dirs[PRIVOP_N_DIRS];      /* by number; -1: none */
	int locks[PRIVOP_N_DIRS];     /* the files whose locks are held; -1: none */
	uint32_t jobs[PRIVOP_N_DIRS]; /* whose directories those of PRIVOP_OPEN_DIR are */
	struct rundir_mark marks[PRIVOP_N_DIRS]; /* the users of these jobs, as root sees it */
	unsigned n_made;			 /* directories */
	int groups[PRIVOP_N_GROUPS];		 /* of the job, to be joined; -1: none */
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

/* A privileged operation, and the descriptors that go back and are closed then. */
struct call {
	struct privop *a;
	int dir, dir2; /* that a->dir and a->dir2 stand for; -1: none */
	char name[64]; /* that a->name stands for in a->dir; "" (which nothing is called): none */
	struct slot *slot; /* that root lets go of; a child has it for longer; NULL: none */
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
/* Copies the child's answer and its descriptors to c. -ETIMEDOUT: root does not wait for the child
 * any longer, and the child may still complete its operation. */
int child_do(struct keeper *k, struct call *c, privop_fn fn);
/* To be called before root ends with status r. Nothing is sent through that socket any more, and a
 * child gets its unread packets. Returns r. */
int child_hold(int sock, int r);

/* Does one privileged operation. c->out becomes the caller's. */
void privop_do(struct keeper *k, struct call *c);

/* fd goes back; an errno where it is none. 0 or -errno. */
int privop_give(struct call *c, int fd);

/* The slot that a privileged operation names; NULL: none. */
struct slot *slot_get(struct keeper *k, const struct privop *a);
/* Opens the directories that the call names, if they are not open yet. No request is sent to a FUSE
 * server. */
void slot_open(struct slot *s, const struct call *c);

/* The mount that fd was opened by, as fdinfo has it; no file system is asked. -1: it can't be read.
 */
long mount_get_id(int fd);

/* Opens path beneath dir (O_PATH) without following links and only on dir's own mount, so no user's
 * server is asked for a name. Changes path. Returns an fd or -errno; -EXDEV: something is mounted
 * on a part of the path. */
int privop_open_below(int dir, char *path);

/* The top of the job's tmpfs, which the call names: an fd (O_PATH); -EPERM: it is something else,
 * or not mounted. */
int privop_open_memory(const struct call *c);

/* A copy of a mount, or of the part that is below dirfd and name (flags: AT_EMPTY_PATH): an fd, or
 * -errno. */
int mount_copy(int dirfd, const char *name, int flags);
int mount_attach(int tree, int target);

/* Attaches the tree in that mount namespace as well, below the directory that dir is here, and
 * stays in it: for a child. 0: also where the namespace is not made yet. */
int repeat_attach(int tree, int dir, const char *path, const char *ns_path);

/* May that name exist in that directory? */
bool privop_is_place(uint32_t dir, uint32_t name);

/* May the keeper use the object of the privileged operation's name? A job's keeper may use the
 * objects of its job. It may also clean up what was moved aside for other jobs, because these are
 * over. */
bool privop_is_ours(const struct keeper *k, const struct privop *a);

/* In the keeper of a running job: is that the directory of another job, and not known to belong to
 * the same user? A manager that could change its record could let the reaper remove data of other
 * users. A leftover with the job's own number has to be ended first, for which its record is
 * needed. A directory of another user that was moved aside does not belong to the job, whatever its
 * number. */
bool privop_is_others(const struct keeper *k, uint32_t dir);

/* The job's user; in a clean-up the user of a job whose directory is held. Never root or the system
 * user. *gidp: the job's group, where it is. */
bool privop_is_users(const struct keeper *k, uid_t uid, gid_t *gidp);
/* The user whose job that directory is; 0: that is not known (yet). */
uid_t dir_find_owner(int dir, struct rundir_mark *mark);

/* The name that an enum privop_name means with these numbers. */
void privop_print_name(char buf[static 64], uint32_t name, const int64_t *n);

/* Parses a line of /proc/<pid>/stat; -EPROTO: it is malformed. The user chooses the name in it,
 * which may contain blanks and brackets. A zombie with remaining threads has the state 'D', because
 * its threads still hold their objects. */
int proc_parse_stat(const char *line, uint64_t *startp, char *statep, pid_t *parentp);

void ask_fill_system_user(const struct keeper *k, struct process_user *user);

/* Begin where that was not done; r of the ask, or why none can be begun now: then it may be tried
 * again. */
int ask_site(struct keeper *k);
int ask_user(struct keeper *k);
/* Is that the path of the tier of that mark, for this job? 0; -EINPROGRESS; -ENOENT, or why it is
 * not known. */
int ask_tier(struct keeper *k, int64_t which, const char *path);
/* Reads the answers that have arrived. After a child has ended: was it one of these? NULL: the
 * child is not known. */
void ask_read(struct keeper *k);
void ask_end(struct keeper *k, pid_t pid, int status);
/* Is that child one of these, and has not answered yet? */
bool ask_is_pending(const struct keeper *k, pid_t pid);
const struct helper_site *ask_get_site(const struct keeper *k);

int privop_site(struct keeper *k, struct call *c);
int privop_open_base(struct keeper *k, struct call *c);
int privop_open_tier(struct keeper *k, struct call *c);
int privop_open_dir(struct keeper *k, struct call *c);
int privop_close_dir(struct keeper *k, struct call *c);
int privop_list(struct keeper *k, struct call *c);
int privop_check_dir(struct keeper *k, struct call *c);
int privop_make_dir(struct keeper *k, struct call *c);
int privop_rename(struct keeper *k, struct call *c);
int privop_remove(struct keeper *k, struct call *c);
int privop_open_file(struct keeper *k, struct call *c);
int privop_write(struct keeper *k, struct call *c);
int privop_lock(struct keeper *k, struct call *c);
int privop_bind(struct keeper *k, struct call *c);
int privop_memory(struct keeper *k, struct call *c);
int privop_resize(struct keeper *k, struct call *c);
int privop_slot(struct keeper *k, struct call *c);
int privop_detach(struct keeper *k, struct call *c);
int privop_detach_below(struct keeper *k, struct call *c);
int privop_repeat(struct keeper *k, struct call *c);
int privop_place(struct keeper *k, struct call *c);
int privop_open_waiting(struct keeper *k, struct call *c);
int privop_abort(struct keeper *k, struct call *c);
int privop_user(struct keeper *k, struct call *c);
int privop_spawn(struct keeper *k, struct call *c);
int privop_check_program(struct keeper *k, struct call *c);
int privop_go(struct keeper *k, struct call *c);
int privop_look(struct keeper *k, struct call *c);
int privop_kill(struct keeper *k, struct call *c);
int privop_kill_children(struct keeper *k, struct call *c);
int privop_follow(struct keeper *k, struct call *c);
int privop_open_proc(struct keeper *k, struct call *c);
int privop_hold_group(struct keeper *k, struct call *c);
int privop_enter_groups(struct keeper *k, struct call *c);
int privop_remove_group(struct keeper *k, struct call *c);
int privop_join_group(struct keeper *k, struct call *c);
int privop_open_log(struct keeper *k, struct call *c);
int privop_text(struct keeper *k, struct call *c);
int privop_log(struct keeper *k, struct call *c);
int privop_answer(struct keeper *k, struct call *c);
