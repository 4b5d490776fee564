/*
 * proc: processes known by pid and start time, so that none but ours is ever signalled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
	pid_t pid;      /* 0: none */
	uint64_t start; /* clock ticks since boot, field 22 of /proc/<pid>/stat */
};

/* What a line of /proc/<pid>/stat says; -EPROTO if it is none. The name in it is the user's: it
 * may hold blanks and brackets. A zombie that has threads left is 'D': what its threads hold is
 * held. */
int proc_parse_stat(const char *line, uint64_t *startp, char *statep, pid_t *parentp);

/* Looks pid up; -ESRCH if there is none. */
int proc_get(pid_t pid, struct proc *p);

/* Does it still run? A zombie without threads does not; one of our own children is reaped. */
bool proc_is_alive(const struct proc *p);

/* Is it stopped, by a signal or by who traces it? */
bool proc_is_stopped(pid_t pid);

/* Signals it through a pidfd (5.3), else at once after a look at its start time. 0 or -ESRCH. */
int proc_kill(const struct proc *p, int sig);

/* SIGKILLs and reaps all children, their orphans included (we are a subreaper), until there are
 * none or deadline_ms. */
void proc_kill_children(uint64_t deadline_ms);

/* The end of our child pid: minus its exit status, -EINTR: killed, or stopped and killed by us; -ETIMEDOUT at
 * deadline_ms: it is killed and left behind. */
int proc_wait(pid_t pid, uint64_t deadline_ms);

/*
 * Runs fn(arg) in a forked child and gives what it returned (0 or -errno). Whatever fn hangs on,
 * the caller goes on at deadline_ms with -ETIMEDOUT; the child is killed then.
 */
int proc_run(int (*fn)(void *arg), void *arg, uint64_t deadline_ms);

/* Closed in children of proc_run(): one that hangs must not hold the job's lock. */
void proc_set_private_fd(int fd);

/* Reads a small file of proc, sys or our own whole, NUL-terminated; the length or -errno. */
ssize_t proc_read(int dirfd, const char *path, char *buf, size_t size);

/* Writes to a file of proc or a cgroup. 0 or -errno. */
int proc_write(const char *path, const char *text);

void proc_sleep_ms(unsigned ms);
