/*
 * loop: the one thread's event loop: descriptors (epoll), timers (CLOCK_BOOTTIME), children and
 * signals. No callback may wait for anything.
 *
 * Sources, timers and children are embedded in what they belong to; removing one from inside any
 * callback is fine, also one whose event is part of the same round.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "common/util/list.h"

struct loop;

struct loop_source {
	int fd; /* -1: not in a loop */
	uint32_t events;
	void (*fn)(void *arg, uint32_t events);
	void *arg;
};

struct loop_timer {
	struct list node;
	uint64_t due_ms;
	void (*fn)(void *arg);
	void *arg;
};

struct loop_child {
	struct list node;
	pid_t pid;
	void (*fn)(void *arg, int status); /* status as of waitpid(2); the child is removed */
	void *arg;
};

int loop_new(struct loop **lp);
void loop_free(struct loop *l);
DEFINE_FREEP(struct loop, loop_free)

/* fd stays the caller's. EPOLLHUP and EPOLLERR are always reported. */
int loop_add(struct loop *l, struct loop_source *s, int fd, uint32_t events,
	     void (*fn)(void *arg, uint32_t events), void *arg);
void loop_set_events(struct loop *l, struct loop_source *s, uint32_t events);
/* Call it before fd is closed. May be called twice. */
void loop_remove(struct loop *l, struct loop_source *s);

/* Call it once, before the first use of a timer. */
void loop_timer_init(struct loop_timer *t, void (*fn)(void *arg), void *arg);
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t after_ms);
void loop_timer_cancel(struct loop_timer *t);
bool loop_timer_is_set(const struct loop_timer *t);

/* c->node must be initialised (list_init) once. */
void loop_child_add(struct loop *l, struct loop_child *c, pid_t pid,
		    void (*fn)(void *arg, int status), void *arg);
void loop_child_remove(struct loop_child *c);

/* Calls fn for SIGTERM and SIGINT. If SIGTERM was ignored when the process started, fn is called
 * for CLEANER_SIGNAL_DIED instead of SIGTERM; a SIGINT that was ignored stays ignored. These
 * signals and SIGCHLD are blocked from here on. SIGPIPE and SIGHUP are ignored. */
int loop_catch_signals(struct loop *l, void (*fn)(void *arg, int sig), void *arg);
/* Called in a child between fork and exec. Unblocks all signals, resets SIGPIPE to its default, and
 * SIGHUP to its disposition at start. */
void loop_restore_signals(void);

/* Returns milliseconds of CLOCK_BOOTTIME, which stay the same during a round. */
uint64_t loop_get_time(const struct loop *l);

/* Runs until loop_stop() is called. Returns 0 or -errno. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);
