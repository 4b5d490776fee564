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
	/* The peer has hung up or was hung up on; it is freed when this returns. */
	void (*on_close)(void *arg, struct peer *peer);
	void (*on_lease)(void *arg, struct peer *peer);
	/* Progress is held back for a moment. */
	void (*on_later)(void *arg);
	void *arg;
};

/* Takes fd over; whoever is behind it was checked. */
int peer_new(struct peer **peerp, const struct peer_owner *owner, int fd);
void peer_close(struct peer *peer);

/* Sends what there is to say. May close the peer. */
void peer_pump(struct peer *peer);

bool peer_is_idle(const struct peer *peer); /* nothing asked, no lease */
/* Idle, and not just because its request was not read yet. */
bool peer_may_make_room(const struct peer *peer, uint64_t now_ms);
bool peer_is_lease(const struct peer *peer);
/* It never asked anything, or it was answered, so long ago. */
bool peer_is_overdue(const struct peer *peer, uint64_t now_ms);

/* For the owner's list. */
struct list *peer_get_node(struct peer *peer);
struct peer *peer_from_node(struct list *node);
