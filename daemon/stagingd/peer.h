/*
 * peer: one connection of a client. One request at a time: the next is not read before the last one
 * is answered, so a flood waits in the client's own socket buffer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/util/list.h"

struct job;
struct log_ring;
struct loop;
struct peer;

struct peer_owner {
	struct loop *loop;
	struct job *job;
	struct log_ring *log;
	/* The connection was closed by either side; the peer is freed when this returns. */
	void (*on_close)(void *arg, struct peer *peer);
	void (*on_lease)(void *arg, struct peer *peer);
	/* A progress message is delayed: call peer_pump() again soon. */
	void (*on_later)(void *arg);
	void *arg;
};

/* Takes over fd. The caller has checked the client's identity. */
int peer_new(struct peer **peerp, const struct peer_owner *owner, int fd);
void peer_close(struct peer *peer);

/* Sends the messages that are ready. May close and free the peer. */
void peer_pump(struct peer *peer);

bool peer_is_idle(const struct peer *peer); /* no open request and no lease */
/* Returns whether the peer may be closed for another client: it has been idle for so long that its
 * request would have been read by now. */
bool peer_may_make_room(const struct peer *peer, uint64_t now_ms);
/* Returns the time of the connection, or of the last answer. */
uint64_t peer_get_since(const struct peer *peer);
bool peer_is_lease(const struct peer *peer);
/* Returns whether the peer has been idle for too long, since it connected or since its last
 * answer. */
bool peer_is_overdue(const struct peer *peer, uint64_t now_ms);

/* List entry for the owner's list of peers. */
struct list *peer_get_node(struct peer *peer);
struct peer *peer_from_node(struct list *node);
