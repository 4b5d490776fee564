/*
 * worker-proc: one stage-worker: its socket, its process, and how it is brought to an end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "common/protocol/kv.h"
#include "common/protocol/keeper-verbs.h"

struct error;
struct launcher;
struct loop;
struct worker_proc;

#define WORKER_GRACE_MS 2000 /* from cancel to SIGKILL */
#define WORKER_STUCK_MS 3000 /* from SIGKILL to giving it up */

struct worker_events {
	void (*started)(void *arg, pid_t pid);
	/* False: it had no right to say this; it is killed, ended() follows. */
	bool (*message)(void *arg, const char *op, const struct kv *kv);
	/*
	 * The process is gone and all that it said was told before, or it never came to be. how: a
	 * sentence for people ("killed by signal 9"). Frees the worker when it returns.
	 */
	void (*ended)(void *arg, int status, const char *how);
	/* It does not even die of SIGKILL: it hangs in the kernel. Frees it when it returns. */
	void (*stuck)(void *arg, pid_t pid);
};

/* Starts it and sends the task, with keys_fd (-1: none) beside it, which stays the caller's. */
int worker_proc_new(struct worker_proc **wp, struct loop *loop, struct launcher *launcher,
		    uint32_t id, enum keeper_class class, const struct kv *task, int keys_fd,
		    const struct worker_events *events, void *arg, struct error *err);

uint32_t worker_proc_get_id(const struct worker_proc *w);

/* What came beside the message that is being handled; -1: nothing did. Lent. */
int worker_proc_get_fd(const struct worker_proc *w);

/* A worker that does not read is killed. fds stay the caller's. */
void worker_proc_send(struct worker_proc *w, const struct kv *kv, const int *fds, size_t n_fds);

/* It serves a mount from now on, and lives on whoever else ends. */
void worker_proc_serves(struct worker_proc *w);

/* Cancel, and the means that follow when it does not obey. Twice is fine. */
void worker_proc_cancel(struct worker_proc *w);
void worker_proc_kill(struct worker_proc *w);

/* Lets go of it: no event any more, its socket is closed. NULL is fine. */
void worker_proc_free(struct worker_proc *w);

/* From the launcher's events. */
void worker_proc_on_spawned(struct worker_proc *w, int r, pid_t pid);
void worker_proc_on_exited(struct worker_proc *w, int status);
