/*
 * privops: sends requests to stage-keeper, which is root (common/protocol/keeper-privops.h), and
 * receives its events. There is one keeper, so there is one connection. If the keeper is gone, this
 * process ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/protocol/keeper-privops.h"

/* poll(2) on this descriptor waits for packets of the keeper; privops_hear() reads them. */
int privops_get_fd(void);

/* Has one privileged operation done: r of its answer, 0 or more, or -errno. The descriptors that
 * come, out and *n_outp (room for them, and their number), are the caller's; NULL and NULL where
 * none are wanted. */
int privops_do(struct privop *a, int *out, size_t *n_outp);

/* The same for privileged operations of a name, of numbers alone, and for those that give one fd:
 * that, the caller's, or -errno. */
int privops_do_name(enum privop_kind kind, uint32_t dir, enum privop_name name, int64_t n0,
		    int64_t n1, int64_t n2);
int privops_do_numbers(enum privop_kind kind, int64_t n0, int64_t n1, int64_t n2);
int privops_rename(uint32_t dir, enum privop_name name, uint32_t dir2, enum privop_name name2,
		   int64_t n0, int64_t n1);
int privops_open(enum privop_kind kind, uint32_t dir, uint32_t name);

/* Texts of at most PRIVOP_TEXT_SIZE - 1 bytes: of lines for the site's log, and for the plugin. */
void privops_log(const char *text);
void privops_answer(const char *text);

/* Has a file written, from its beginning on: 0 or -errno. */
int privops_write(uint32_t dir, enum privop_file file, const void *data, size_t size);

/* For privileged operations that take a path. One that is too long: -ENAMETOOLONG. */
int privops_do_path(enum privop_kind kind, const char *path, int64_t n0);

struct privops_spawn {
	enum privop_program program;
	const char *const *argv; /* of stage-helper, that name first, NULL at the end; root has
				    those of others */
	uid_t uid;
	gid_t gid;
	int fds[4]; /* become 3, 4, … */
	size_t n_fds;
	int output; /* becomes stdout and stderr; -1: /dev/null */
	int nice;
	int64_t flags; /* PRIVOP_SPAWN_* but _OUTPUT */
};

/* Its pid, or -errno. It waits until privops_go() is called, which must be next. Its end is kept
 * until privops_next_exit() or privops_wait() takes it; -EAGAIN: there are too many that nobody
 * took. */
pid_t privops_spawn(const struct privops_spawn *s, uint64_t *startp);
int privops_go(bool go);

/* Reads the packets that have arrived, without waiting. */
void privops_hear(void);
/* Was the keeper told that the job is over? */
bool privops_is_over(void);
/* A child that privops_spawn() started and that has ended, and its status as of waitpid(2). false:
 * none that is known of. */
bool privops_next_exit(pid_t *pidp, int *statusp);

/* Waits for the end of a child. Returns minus its exit status; -EINTR: it was killed, or was
 * stopped and then killed by us; -ETIMEDOUT at deadline_ms: it is killed and not waited for any
 * longer. */
int privops_wait(pid_t pid, uint64_t deadline_ms);

/* A function that is called at least every 300 ms while privops_wait() or helper_end() waits for a
 * child, for work that cannot wait longer. It must not wait itself. NULL: none. */
extern void (*privops_meanwhile)(void);

/* Who does the privileged operations: the keeper at the other end of MANAGER_FD_KEEPER; a test puts
 * its own there. */
extern int (*privops_transport)(struct privop *a, int *out, size_t *n_outp);
