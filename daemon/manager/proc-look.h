/*
 * proc-look: examines the threads of a job for those that are about to end. A job may have any
 * number of threads, so the caller can divide a pass into any number of steps, each of which takes
 * well below a millisecond. Only the beginning of a pass, which lists the threads, cannot be
 * divided.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_thread {
	pid_t tid;
	uint64_t start;	   /* field 22 of stat: what tells it from a later one of that number */
	uint64_t switches; /* of context, of either kind, since it was started */
	uid_t uid;	   /* real */
	bool asleep;	   /* not running, and not waiting for a CPU either */
	bool stopped;	   /* by a signal, or by who traces it */
	bool io;	   /* made by the kernel for io_uring; hangs if `ending`, even if it runs */
	bool ending;	   /* it exits, or has SIGKILL pending */
};

/* A text of /proc/<pid>/task/<tid>/stat: start, asleep, ending. The name in it is the user's. 0 or
 * -EPROTO. */
int proc_look_parse_stat(const char *text, struct proc_thread *t);

/* A text of …/status: uid, switches. 0 or -EPROTO. */
int proc_look_parse_status(const char *text, struct proc_thread *t);

struct proc_look {
	bool active; /* a pass has begun */
	int proc_fd;
	bool by_uid;
	uid_t uid;  /* whose threads count; PROC_LOOK_ANYBODY */
	pid_t *ids; /* threads of a cgroup; by uid: processes of the node */
	size_t n_ids, room, next;
	pid_t pid;    /* by uid: whose threads are gone through */
	DIR *threads; /* of that process; NULL: none */
};

#define PROC_LOOK_INIT ((struct proc_look){ .active = false })

#define PROC_LOOK_ANYBODY ((uid_t)-1)

/* Begins a pass. group: a cgroup, those below it included, in which all threads count: a process of
 * the job may be another user by now (sudo, newuidmap). NULL: all processes of uid, or of anybody.
 * fd: of a proc file system, open until the end of the pass. 0 or -errno. */
int proc_look_begin(struct proc_look *l, int fd, const char *group, uid_t uid);

enum {
	PROC_LOOK_NOTHING, /* there is more to look at */
	PROC_LOOK_THREAD,  /* *t is ending */
	PROC_LOOK_END,	   /* of the pass; also where none was begun */
};

/* Is the process stopped, or a program that its first thread has started (squashfuse_ll, of a
 * worker)? fd: of a proc file system. */
bool proc_look_is_stopped(int fd, pid_t pid);

/* One step. */
int proc_look_next(struct proc_look *l, struct proc_thread *t);

/* Ends a pass, at its end or before. Twice is fine. */
void proc_look_end(struct proc_look *l);
