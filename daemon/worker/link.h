/*
 * link: the conversation with stagingd: one thread reads the socket, sends progress and watches the
 * clock, so that a cancel is heard while everybody else copies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

struct error;
struct link;

struct link_limits {
	uint64_t stall_ms;   /* no progress for so long ends it; 0: none */
	uint64_t timeout_ms; /* the whole may take so long; 0: none */
	uint64_t grace_ms;   /* after the end was called for, before undo() is done for the others */
};

/*
 * Takes sock over and starts the thread. undo(arg) is called in it when the others have not come
 * back grace_ms after a cancel; the process ends then. Where it fails sock is still the caller's.
 */
int link_new(struct link **linkp, int sock, const struct link_limits *limits,
	     void (*undo)(void *arg), void *arg, struct error *err);
/* Ends the thread, closes the socket. */
void link_free(struct link *link);
DEFINE_FREEP(struct link, link_free)

/* Any thread. -errno as conn_send(). */
int link_send(struct link *link, const struct kv *kv);
int link_send_error(struct link *link, const struct error *err);

/* The same error by a socket that got no link. */
int link_tell(int sock, const struct error *err);

/* Sends and waits for the answer with that op; one at a time. fds may be NULL. -ECANCELED when the
 * end is called for meanwhile. */
int link_ask(struct link *link, const struct kv *request, const char *answer_op,
	     struct kv **answerp, int *fds, size_t max_fds, size_t *n_fdsp, struct error *err);

void link_add_progress(struct link *link, uint64_t bytes, uint64_t files);
/* Bytes so far. */
uint64_t link_get_progress(const struct link *link);
/* So much of what was granted is taken; goes along with the progress. */
void link_set_written(struct link *link, uint64_t bytes);

/* It waits for others: that is not a stall. */
void link_set_paused(struct link *link, bool paused);

bool link_is_cancelled(const struct link *link);
/* 0, or why it is to end: -ECANCELED, -ETIMEDOUT. */
int link_get_reason(struct link *link, struct error *err);

/* The others have come back: undo() is theirs from now on. Does not return if the thread is at it
 * already. */
void link_come_back(struct link *link);
/* The opposite: off to copy again. */
void link_go_off(struct link *link);

/* No limits of time any more; the end calls stop(arg), once, in the thread, which has only what
 * sandbox_enter_beside_server() leaves from now on. resize(arg, size): when stagingd says how much the server may
 * keep; now, if it has said so before. */
void link_set_serving(struct link *link, void (*stop)(void *arg),
		      void (*resize)(void *arg, uint64_t size), void *arg);
/* Neither is called any more, nor is being called when this returns: its argument may go. Never
 * from stop() itself. */
void link_end_serving(struct link *link);
