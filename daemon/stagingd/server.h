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
	int fd;	     /* bound; taken over */
	bool leases; /* the job ends with its last lease */
};

int server_new(struct server **sp, const struct server_options *options, struct error *err);
void server_free(struct server *s);
DEFINE_FREEP(struct server, server_free)

/* Something changed: those who wait get their answers in the same round of the loop (urgent), or
 * within REQUEST_INTERVAL_MS. */
void server_notify(struct server *s, bool urgent);

/* Now: before the process ends. */
void server_flush(struct server *s);
