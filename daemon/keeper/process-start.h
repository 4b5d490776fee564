/*
 * process-start: starts one of our programs as the job's user, and checks that the change of user
 * worked. Between fork and exec the child gives up everything of root and slurmd: groups, ids,
 * capabilities, signals, limits, descriptors, keyring, environment, directory. Each important step
 * is checked. A failure ends the child with an enum process_exit; the child never continues with
 * root's rights.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/protocol/keeper-verbs.h"
#include "common/util/cleanup.h"

enum process_exit {
	PROCESS_EXIT_DROP = 120,	      /* giving up root's rights failed */
	PROCESS_EXIT_PROOF,		      /* no failure was reported, but the process can
					       * become root again */
	PROCESS_EXIT_ORPHAN,		      /* the keeper ended before it let the child start */
	PROCESS_EXIT_SETUP,		      /* setting up descriptors, directory, cgroups or
					       * keyring failed */
	PROCESS_EXIT_EXEC = KEEPER_EXIT_EXEC, /* plus errno: the program could not be executed */
};

#define PROCESS_MAX_FDS 4

struct process_user {
	uid_t uid; /* 0 is refused */
	gid_t gid;
	const gid_t *groups;
	int n_groups;
	const char *env[8]; /* the whole environment */
};

/* Opens one of our programs. Returns an fd (O_PATH) or -errno. -EPERM: it is not a regular file
 * that belongs to root and is writable by nobody else. */
int process_open_program(const char *path);

struct process {
	const struct process_user *user;
	int program; /* from process_open_program() */
	const char *const *argv;
	int fds[PROCESS_MAX_FDS]; /* become 3, 4, … in the child */
	size_t n_fds;
	int output; /* becomes stdout and stderr; -1: /dev/null */
	/* A socket, through which the child gets more descriptors beside a packet of one byte; 0:
	 * none. The first n_fds of them are placeholders for fds above and are not used; the others
	 * come after those in fds. Only the child has the socket, and it takes the descriptors when
	 * it may start. */
	int sock;
	bool takes_output; /* the last descriptor from sock is the output */
	const int *groups; /* directories of the cgroups for the child; -1: none */
	size_t n_groups;
	int oom_score_adj;
	int nice;
	rlim_t max_file;   /* maximum size in bytes of a file that it writes; 0: no limit */
	bool dies_with_us; /* SIGKILL when the keeper dies */
};

/*
 * Forks. The child waits until a byte is written to *gop, which the caller closes, and ends if *gop
 * is closed before. So the caller can record the child before it does anything. Returns the pid or
 * -errno.
 */
pid_t process_start(struct process *l, int *gop);

/* Called in a forked child: closes all of root's descriptors except fd, those named in l, and the
 * standard files. */
void process_close_others(const struct process *l, int fd);

/* Moves a process to a cgroup, with all its threads; pid 0: the caller, as one thread if the cgroup
 * is v1. Returns 0 or -errno. Also returns 0 if Slurm has removed the cgroup, because the manager
 * looks for the next one. */
int process_join(int group, pid_t pid);

/* Sets all signals to their default action and unblocks them. */
void process_reset_signals(void);

/* Called in a forked child: becomes the user for ever. Returns 0, or -errno if this failed or
 * cannot be proved; the process must end then. Keeps descriptors and directory. */
int process_become(uid_t uid, gid_t gid, const gid_t *groups, int n_groups);
