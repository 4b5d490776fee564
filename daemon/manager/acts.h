/*
 * acts: has stage-keeper, which is root, act (common/protocol/keeper-acts.h), and hears what it says by
 * itself. There is one keeper, so there is one conversation. A keeper that is gone ends us.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/protocol/keeper-acts.h"

/* What the keeper says can be waited for by poll(2) here; acts_hear() takes it. */
int acts_get_fd(void);

/* Has one act done: r of its answer, 0 or more, or -errno. fds stay the caller's; out and *n_outp
 * (room for them, and their number), NULL and NULL where none are wanted: the caller's. */
int acts_do(struct act *a, const int *fds, size_t n_fds, int *out, size_t *n_outp);

/* The same for acts of a name, of numbers alone, and for those that give one fd: that, the caller's,
 * or -errno. */
int acts_do_name(enum act_kind kind, uint32_t dir, enum act_name name, int64_t n0, int64_t n1, int64_t n2);
int acts_do_numbers(enum act_kind kind, int64_t n0, int64_t n1, int64_t n2);
int acts_rename(uint32_t dir, enum act_name name, uint32_t dir2, enum act_name name2, int64_t n0, int64_t n1);
int acts_open(enum act_kind kind, uint32_t dir, uint32_t name);

/* For acts that take a path. One that is too long: -ENAMETOOLONG. */
int acts_do_path(enum act_kind kind, const char *path, int64_t n0);
int acts_open_path(enum act_kind kind, const char *path);

struct acts_spawn {
	enum act_program program;
	const char *const *argv; /* of stage-hand, that name first, NULL at the end; root has those of others */
	uid_t uid;
	gid_t gid;
	int fds[4];              /* become 3, 4, … */
	size_t n_fds;
	int output;              /* becomes stdout and stderr; -1: /dev/null */
	int nice;
	int64_t flags;           /* ACT_SPAWN_* but _OUTPUT */
};

/* Its pid, or -errno. It waits until acts_go() is called, which must be next. Its end is kept until
 * acts_next_exit() or acts_wait() takes it; -EAGAIN: there are too many that nobody took. */
pid_t acts_spawn(const struct acts_spawn *s, uint64_t *startp);
int acts_go(bool go);

/* Takes what has come, without waiting. */
void acts_hear(void);
/* Was the keeper told that the job is over? */
bool acts_is_over(void);
/* A child that acts_spawn() started and that has ended, and its status as of waitpid(2). false: none
 * that is known of. */
bool acts_next_exit(pid_t *pidp, int *statusp);

/* The end of a child: minus its exit status, -EINTR: killed, or stopped and killed by us; -ETIMEDOUT at deadline_ms: it is
 * killed and left behind. */
int acts_wait(pid_t pid, uint64_t deadline_ms);

/* Called at least every 300 ms while acts_wait() or hand_end() waits for a child: what must not wait that
 * long. It must not wait itself. NULL: nothing. */
extern void (*acts_meanwhile)(void);

/* Who does the acts: the keeper at the other end of STEWARD_FD_KEEPER; a test puts its own there. */
extern int (*acts_transport)(struct act *a, const int *fds, size_t n_fds, int *out, size_t *n_outp);
