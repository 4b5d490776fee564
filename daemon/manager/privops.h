/*
 * privops: sends requests to stage-keeper, which is root (common/protocol/keeper-privops.h), and
 * receives its events. There is one keeper, so there is one connection. If the keeper is gone, this
 * process ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/protocol/keeper-privops.h"

/* Returns the descriptor to the keeper, for poll(2). Its packets are read by privops_hear(). */
int privops_get_fd(void);

/* Sends one privileged operation and waits for its answer, which is stored in *a. Returns r of the
 * answer: 0 or more, or -errno. out receives at most *n_outp descriptors, which belong to the
 * caller, and *n_outp is set to their number. Both are NULL if no descriptors are expected. */
int privops_do(struct privop *a, int *out, size_t *n_outp);

/* The same for privileged operations on a name; with numbers only; for a rename; and for those that
 * return one fd. privops_open() returns this fd, which belongs to the caller, or -errno. */
int privops_do_name(enum privop_kind kind, uint32_t dir, enum privop_name name, int64_t n0,
		    int64_t n1, int64_t n2);
int privops_do_numbers(enum privop_kind kind, int64_t n0, int64_t n1, int64_t n2);
int privops_rename(uint32_t dir, enum privop_name name, uint32_t dir2, enum privop_name name2,
		   int64_t n0, int64_t n1);
int privops_open(enum privop_kind kind, uint32_t dir, uint32_t name);

/* Send a text of at most PRIVOP_TEXT_SIZE - 1 bytes: lines for the site's log, or the answer for
 * the plugin. */
void privops_log(const char *text);
void privops_answer(const char *text);

/* Replaces the content of a file (or appends: see enum privop_file). Returns 0 or -errno. */
int privops_write(uint32_t dir, enum privop_file file, const void *data, size_t size);

/* The same for privileged operations with a path. -ENAMETOOLONG: the path is too long. */
int privops_do_path(enum privop_kind kind, const char *path, int64_t n0);

struct privops_spawn {
	enum privop_program program;
	const char *const *argv; /* of stage-helper: its name first, NULL last; root chooses
				  * those of the other programs */
	uid_t uid;
	gid_t gid;
	int fds[4]; /* become 3, 4, … in the child */
	size_t n_fds;
	int output; /* becomes stdout and stderr; -1: /dev/null */
	int nice;
	int64_t flags; /* PRIVOP_SPAWN_*, except _OUTPUT */
};

/* Starts a child, which waits for privops_go(). No other child may be started before that, because
 * the first one would end. Returns its pid or -errno. The child's exit status is stored until
 * privops_next_exit() or privops_wait() takes it. -EAGAIN: too many statuses were not taken, or
 * the keeper has PRIVOP_MAX_CHILDREN children. */
pid_t privops_spawn(const struct privops_spawn *s, uint64_t *startp);
int privops_go(bool go);

/* Reads the packets that have arrived. Does not wait. */
void privops_hear(void);
/* Returns true if the keeper has been told that the job is over. */
bool privops_is_over(void);
/* Takes the pid and the status, as of waitpid(2), of one child that privops_spawn() started and
 * that has ended. Returns false if there is none. */
bool privops_next_exit(pid_t *pidp, int *statusp);

/* Waits for the end of a child. Returns minus its exit status; -EINTR: it was killed, or it was
 * stopped and we killed it; -ETIMEDOUT at deadline_ms: it was sent SIGKILL, and its end is not
 * waited for. */
int privops_wait(pid_t pid, uint64_t deadline_ms);

/* This function is called at least every 300 ms while privops_wait() or helper_ask() waits for a
 * child, for work that cannot wait longer. It must not wait itself. NULL: no function. */
extern void (*privops_meanwhile)(void);

/* Performs a privileged operation. By default, it asks the keeper at the other end of
 * MANAGER_FD_KEEPER; a test sets a function of its own. */
extern int (*privops_transport)(struct privop *a, int *out, size_t *n_outp);
