/*
 * daemon-conn: the connection to stagingd. One thread reads the socket, sends progress and watches
 * the deadlines, so that `cancel` is received while the other threads copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

struct error;
struct daemon_conn;

struct daemon_conn_limits {
	uint64_t stall_ms;   /* no progress for so long ends it; 0: none */
	uint64_t timeout_ms; /* the whole may take so long; 0: none */
	uint64_t grace_ms; /* after the end was called for, before undo() is done for the others */
};

/*
 * Takes sock over and starts the thread. undo(arg) is called in it when the others have not come
 * back grace_ms after a cancel; the process ends then. Where it fails sock is still the caller's.
 */
int daemon_conn_new(struct daemon_conn **linkp, int sock, const struct daemon_conn_limits *limits,
		    void (*undo)(void *arg), void *arg, struct error *err);
/* Ends the thread, closes the socket. */
void daemon_conn_free(struct daemon_conn *link);
DEFINE_FREEP(struct daemon_conn, daemon_conn_free)

/* Any thread. -errno as conn_send(). */
int daemon_conn_send(struct daemon_conn *link, const struct kv *kv);
int daemon_conn_send_error(struct daemon_conn *link, const struct error *err);

/* The same error by a socket that got no link. */
int daemon_conn_tell(int sock, const struct error *err);

/* Sends and waits for the answer with that op; one at a time. fds may be NULL. -ECANCELED when the
 * end is called for meanwhile. */
int daemon_conn_ask(struct daemon_conn *link, const struct kv *request, const char *answer_op,
		    struct kv **answerp, int *fds, size_t max_fds, size_t *n_fdsp,
		    struct error *err);

/* The same with a descriptor beside the request (-1: none), which stays the caller's, and none
 * beside the answer. */
int daemon_conn_ask_with(struct daemon_conn *link, const struct kv *request, int fd,
			 const char *answer_op, struct kv **answerp, struct error *err);

void daemon_conn_add_progress(struct daemon_conn *link, uint64_t bytes, uint64_t files);
/* A thread waits now, and not for the source: that is no stall until the next tick. */
void daemon_conn_add_wait(struct daemon_conn *link);
/* Bytes so far. */
uint64_t daemon_conn_get_progress(const struct daemon_conn *link);
/* So much of what was granted is taken; goes along with the progress. */
void daemon_conn_set_written(struct daemon_conn *link, uint64_t bytes);

/* It waits for others: that is not a stall. */
void daemon_conn_set_paused(struct daemon_conn *link, bool paused);

bool daemon_conn_is_cancelled(const struct daemon_conn *link);
/* 0, or why it is to end: -ECANCELED, -ETIMEDOUT. */
int daemon_conn_get_reason(struct daemon_conn *link, struct error *err);

/* The others have come back: undo() is theirs from now on. Does not return if the thread is at it
 * already. */
void daemon_conn_come_back(struct daemon_conn *link);
/* The opposite: off to copy again. */
void daemon_conn_go_off(struct daemon_conn *link);

/* Any of them may be NULL. */
struct daemon_conn_serving {
	void (*stop)(void *arg);		  /* at the end, once */
	void (*resize)(void *arg, uint64_t size); /* stagingd says how much may be kept */
	int read_ms;				  /* so often was_read() is called */
	bool (*was_read)(void *arg);		  /* since the last call; stagingd gets it */
};

/* No limits of time any more; the thread, which calls the functions, has only what
 * sandbox_enter_beside_server() leaves from now on. resize() is called now, if stagingd has said
 * something before. serving is lent until the link is freed. */
void daemon_conn_set_serving(struct daemon_conn *link, const struct daemon_conn_serving *serving,
			     void *arg);
/* None is called any more, nor is being called when this returns: its argument may go. Never
 * from stop() itself. */
void daemon_conn_end_serving(struct daemon_conn *link);
