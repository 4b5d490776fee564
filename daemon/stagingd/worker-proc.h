/*
 * worker-proc: one stage-worker: its socket, its process, and how it is ended.
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
#define WORKER_STUCK_MS 3000 /* from SIGKILL to giving up */

struct worker_events {
	void (*started)(void *arg, pid_t pid);
	/* Called for each message. Returns false if the message is not allowed; then the worker is
	 * killed and ended() follows. */
	bool (*message)(void *arg, const char *op, const struct kv *kv);
	/* Called when the process has ended and all its messages have been handled, or if it could
	 * not be started. how: a text for people ("killed by signal 9"). The worker is freed when
	 * this returns. */
	void (*ended)(void *arg, int status, const char *how);
	/* Called when the process hangs in the kernel and does not end after SIGKILL. The worker is
	 * freed when this returns. */
	void (*stuck)(void *arg, pid_t pid);
};

/* Starts a worker and sends it the task with keys_fd (-1: none). keys_fd stays the caller's.
 * Returns 0 or an error with err set. */
int worker_proc_new(struct worker_proc **wp, struct loop *loop, struct launcher *launcher,
		    uint32_t id, enum keeper_class class, const struct kv *task, int keys_fd,
		    const struct worker_events *events, void *arg, struct error *err);

uint32_t worker_proc_get_id(const struct worker_proc *w);

/* Returns the descriptor that came with the message that is being handled, or -1. Lent. */
int worker_proc_get_fd(const struct worker_proc *w);

/* Sends a message. If the worker does not read its messages, it is killed. fds stay the
 * caller's. */
void worker_proc_send(struct worker_proc *w, const struct kv *kv, const int *fds, size_t n_fds);

/* Reports to the launcher that the worker serves a mount from now on and must outlive other
 * workers. */
void worker_proc_serves(struct worker_proc *w);

/* Sends `cancel`; if the worker does not end, SIGKILL follows. May be called twice. */
void worker_proc_cancel(struct worker_proc *w);
void worker_proc_kill(struct worker_proc *w);

/* Frees the worker and closes its socket; no further event is called. NULL is fine. */
void worker_proc_free(struct worker_proc *w);

/* Called for events of the launcher. */
void worker_proc_on_spawned(struct worker_proc *w, int r, pid_t pid);
void worker_proc_on_exited(struct worker_proc *w, int status);
