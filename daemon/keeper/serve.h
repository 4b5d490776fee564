/*
 * serve: a keeper at work, as its loop (serve.c) and what stagingd may ask of it (serve-verbs.c)
 * share it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/keeper-verbs.h"
#include "common/rundir.h"
#include "daemon/keeper/abort.h"

struct keeper;
struct launch;

#define SERVE_MAX_WORKERS 128

struct worker {
	pid_t pid; /* 0: free */
	uint32_t id;
	enum keeper_class class;
};

struct serve {
	struct keeper *k;
	int sock, signal_fd, timer_fd;
	int log_rd, log_wr;
	pid_t daemon;             /* 0: dead */
	struct worker workers[SERVE_MAX_WORKERS];
	bool memory_known;        /* and told */
	char memory_group[PATH_MAX]; /* its cgroup.procs, or "" */
	uint64_t memory_deadline_ms;
	uint64_t end_ms;          /* when to end, 0: not yet */
	bool slots[RUNDIR_MAX_SLOTS]; /* mounted */
	struct abort_watch watch;
	bool ended, job_over;
};

/* Takes one packet from stagingd and does what it asks for. */
void serve_verb(struct serve *s);

/* What the loop does for it: */

/* Tells stagingd, if there is one; one that doesn't listen is lost. */
void serve_tell(struct serve *s, uint32_t verb, uint32_t id, int64_t arg0, int64_t arg1);
/* stagingd is gone, or what it says makes no sense: it and the writers are ended. */
void serve_lose_daemon(struct serve *s, const char *why);
/* Starts a child, recorded before it does anything. */
int serve_start(struct serve *s, const struct launch *l, pid_t *pidp);
/* Sets the timer by what there is to wait for and to watch. */
void serve_set_timer(struct serve *s);
/* The job may be in a mount namespace that was made before this mount. */
void serve_repeat_in_job(struct keeper *k, const char *name);
