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
	uint64_t start;	   /* field 22 of stat; a later thread with the same tid has another start
			    * time */
	uint64_t switches; /* context switches since its start, voluntary or not */
	uid_t uid;	   /* real */
	bool asleep;	   /* not running, and not waiting for a CPU */
	bool stopped;	   /* by a signal or by a tracer */
	bool io;     /* made by the kernel for io_uring; with `ending`, it hangs even if it runs */
	bool ending; /* it is exiting, or has SIGKILL pending */
};

/* Parses the text of /proc/<pid>/task/<tid>/stat: sets start and the flags of *t. The user chooses
 * the thread's name in it. Returns 0 or -EPROTO. */
int proc_look_parse_stat(const char *text, struct proc_thread *t);

/* Parses the text of …/status: sets uid and switches. Returns 0 or -EPROTO. */
int proc_look_parse_status(const char *text, struct proc_thread *t);

struct proc_look {
	bool active; /* a pass has begun and not ended */
	int proc_fd;
	bool by_uid;
	uid_t uid;  /* only threads of this user are reported, or PROC_LOOK_ANYBODY */
	pid_t *ids; /* threads of the cgroup; by_uid: processes of the node */
	size_t n_ids, room, next;
	pid_t pid;    /* by_uid: the process whose threads are examined */
	DIR *threads; /* directory of that process's threads; NULL: not open */
};

#define PROC_LOOK_INIT ((struct proc_look){ .active = false })

#define PROC_LOOK_ANYBODY ((uid_t)-1)

/* Begins a pass. group: a cgroup; all threads in it and below it are reported, because a process of
 * the job may have another user's uid by now (sudo, newuidmap). NULL: all processes of uid, or of
 * all users. fd: of a proc file system, open until the end of the pass. Returns 0 or -errno. */
int proc_look_begin(struct proc_look *l, int fd, const char *group, uid_t uid);

enum {
	PROC_LOOK_NOTHING, /* this step found nothing; the pass continues */
	PROC_LOOK_THREAD,  /* *t is a thread that is ending */
	PROC_LOOK_END,	   /* the pass is over, or was not begun */
};

/* Returns true if the process is stopped, or a child that its first thread has started (such as a
 * worker's squashfuse_ll). fd: of a proc file system. */
bool proc_look_is_stopped(int fd, pid_t pid);

/* Does one step of a pass. Returns PROC_LOOK_*. */
int proc_look_next(struct proc_look *l, struct proc_thread *t);

/* Ends a pass and frees its memory. It may be called at any time and more than once. */
void proc_look_end(struct proc_look *l);
