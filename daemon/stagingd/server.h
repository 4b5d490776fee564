/*
 * server: the job's socket. It accepts connections of the job's user and of root, and sends their
 * answers. What a single connection does is in daemon/stagingd/peer.h.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct error;
struct job;
struct log_ring;
struct loop;
struct server;

struct server_options {
	struct loop *loop;
	struct job *job;
	struct log_ring *log;
	int fd;	     /* bound socket; taken over */
	bool leases; /* the job ends when its last lease is closed */
};

int server_new(struct server **sp, const struct server_options *options, struct error *err);
void server_free(struct server *s);
DEFINE_FREEP(struct server, server_free)

/* Called after a change. Waiting clients get their answers in the same round of the loop (urgent),
 * or within REQUEST_INTERVAL_MS. */
void server_notify(struct server *s, bool urgent);

/* Sends all answers that are ready; called before the process ends. */
void server_flush(struct server *s);
