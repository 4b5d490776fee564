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
	PROCESS_EXIT_DROP = 120,	      /* letting go failed */
	PROCESS_EXIT_PROOF,		      /* it seemed to work, and root can be had back */
	PROCESS_EXIT_ORPHAN,		      /* the keeper went away before it said go */
	PROCESS_EXIT_SETUP,		      /* descriptors, directory, memory group, keyring */
	PROCESS_EXIT_EXEC = KEEPER_EXIT_EXEC, /* and an errno */
};

#define PROCESS_MAX_FDS 4

struct process_user {
	uid_t uid; /* 0 is refused */
	gid_t gid;
	const gid_t *groups;
	int n_groups;
	const char *env[8]; /* all of it */
};

/* Opens one of our programs. -EPERM: it is not a regular file that belongs to root and is writable
 * by nobody else. */
int process_open_program(const char *path);

struct process {
	const struct process_user *user;
	int program; /* of process_open_program() */
	const char *const *argv;
	int fds[PROCESS_MAX_FDS]; /* become 3, 4, … in the child */
	size_t n_fds;
	int output; /* becomes stdout and stderr; -1: /dev/null */
	/* A packet of one byte in this socket brings more; 0: none do. Its first n_fds stand for
	 * those above and are not used, the others come after those above. The child alone has the
	 * socket then and takes them, when it may begin. */
	int sock;
	bool takes_output; /* the last of these is the output */
	const int *groups; /* directories of cgroups to be in; -1: none */
	size_t n_groups;
	int oom_score_adj;
	int nice;
	rlim_t max_file;   /* bytes that it may write to a file; 0: any number */
	bool dies_with_us; /* SIGKILL when the keeper dies */
};

/*
 * Forks; the child waits until a byte is written to *gop (the caller's to close) and ends when it
 * is closed without: so that it can be recorded before it does anything. The pid, or -errno.
 */
pid_t process_start(struct process *l, int *gop);

/* In a forked child: closes all that is root's and not named in l, but fd and standard files. */
void process_close_others(const struct process *l, int fd);

/* Writes a number to the file of a cgroup's members: of one thread (v1; 0: the caller), or of all
 * threads of a process. 0 or -errno; 0, too, when Slurm has removed the group: the next one is
 * looked for by the manager. */
int process_join(int group, pid_t pid);

/* All to their default, none blocked. */
void process_reset_signals(void);

/* Becomes the user for good, in a forked child; no way back. 0, or -EPERM if that can't be
 * proved: end the process then. Keeps descriptors and directory. */
int process_become(uid_t uid, gid_t gid, const gid_t *groups, int n_groups);
