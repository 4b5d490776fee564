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
	uint64_t stall_ms;   /* maximum time without progress; 0: no limit */
	uint64_t timeout_ms; /* maximum time for the whole dataset; 0: no limit */
	uint64_t grace_ms;   /* time between a cancel and the call of undo(), if the stager does
			      * not return */
};

/* Takes over sock and starts the thread. If the stager has not returned grace_ms after a cancel,
 * the thread calls undo(arg) and ends the process. On failure, sock is still the caller's. */
int daemon_conn_new(struct daemon_conn **connp, int sock, const struct daemon_conn_limits *limits,
		    void (*undo)(void *arg), void *arg, struct error *err);
/* Ends the thread and closes the socket. */
void daemon_conn_free(struct daemon_conn *conn);
DEFINE_FREEP(struct daemon_conn, daemon_conn_free)

/* Sends a message. Thread-safe. Returns 0 or -errno as conn_send(). */
int daemon_conn_send(struct daemon_conn *conn, const struct kv *kv);
int daemon_conn_send_error(struct daemon_conn *conn, const struct error *err);

/* Sends an error through a socket without a struct daemon_conn. */
int daemon_conn_tell(int sock, const struct error *err);

/* Sends a request and waits for the answer with that op. Only one thread may ask at a time. fds may
 * be NULL. Returns -ECANCELED if the worker is cancelled meanwhile. */
int daemon_conn_ask(struct daemon_conn *conn, const struct kv *request, const char *answer_op,
		    struct kv **answerp, int *fds, size_t max_fds, size_t *n_fdsp,
		    struct error *err);

/* Does the same, but sends a descriptor with the request (-1: none), which stays the caller's. The
 * answer has no descriptor. */
int daemon_conn_ask_with(struct daemon_conn *conn, const struct kv *request, int fd,
			 const char *answer_op, struct kv **answerp, struct error *err);

/* Without bytes and files, this reports a sign of life: the source has answered without data, or a
 * thread waits, but not for the source. The stall timers, also that of stagingd, restart at the
 * next tick. Thread-safe and cheap. */
void daemon_conn_add_progress(struct daemon_conn *conn, uint64_t bytes, uint64_t files);
/* Returns the bytes so far. */
uint64_t daemon_conn_get_progress(const struct daemon_conn *conn);
/* Sets how many granted bytes are written; sent with the next progress message. */
void daemon_conn_set_written(struct daemon_conn *conn, uint64_t bytes);

/* paused: the worker waits for other jobs, which does not count as a stall. */
void daemon_conn_set_paused(struct daemon_conn *conn, bool paused);

bool daemon_conn_is_cancelled(const struct daemon_conn *conn);
/* Returns 0, or the reason why the worker must end: -ECANCELED, -ETIMEDOUT. */
int daemon_conn_get_reason(struct daemon_conn *conn, struct error *err);

/* Reports that the stager has returned, so the caller cleans up from now on. Does not return if the
 * thread has already begun to clean up. */
void daemon_conn_end_stage(struct daemon_conn *conn);
/* Reports that a stager runs again. */
void daemon_conn_begin_stage(struct daemon_conn *conn);

/* Callbacks of a server. Each may be NULL. */
struct daemon_conn_serving {
	void (*stop)(void *arg);		  /* called once at the end */
	void (*resize)(void *arg, uint64_t size); /* stagingd has sent a new size of the cache */
	int read_ms;				  /* interval between calls of was_read() */
	bool (*was_read)(void *arg);		  /* returns whether data was read since the last
						   * call; this is reported to stagingd */
};

/* Ends all time limits. From now on the thread, which calls these functions, is restricted to what
 * sandbox_enter_beside_server() leaves. resize() is called at once if stagingd has sent a size
 * before. serving is lent until the conn is freed. */
void daemon_conn_set_serving(struct daemon_conn *conn, const struct daemon_conn_serving *serving,
			     void *arg);
/* When this returns, no callback is running and none will be called, so their argument may be
 * freed. Must not be called from stop(). */
void daemon_conn_end_serving(struct daemon_conn *conn);
