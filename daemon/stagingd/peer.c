/*
 * A message for which the socket has no space is kept (at most one) and sent first when there is
 * space. All later messages are made from the state at the moment when they can be sent.
 */
#include "daemon/stagingd/peer.h"

#include <errno.h>
#include <stdlib.h>

#include "common/protocol/conn.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/request.h"

#define FIRST_REQUEST_MS 10000
#define IDLE_MS 300000
#define MIN_IDLE_MS 1000

struct peer {
	struct list node;
	const struct peer_owner *owner;
	int fd;
	struct loop_source source;
	struct request *request;
	struct kv *pending;
	bool lease, asked;
	uint64_t since_ms; /* time of the connection or of the last answer */
};

static void set_events(struct peer *p)
{
	loop_set_events(p->owner->loop, &p->source,
			p->pending   ? EPOLLOUT
			: p->request ? 0
				     : EPOLLIN);
}

static void finish_request(struct peer *p)
{
	request_free(p->request);
	p->request = NULL;
	p->since_ms = loop_get_time(p->owner->loop);
}

/* Keeps a copy of a message that could not be sent. */
static int keep(struct peer *p, const struct kv *kv)
{
	const void *data;
	size_t size;

	if (kv_get_data(kv, &data, &size) != 0 || kv_new_from_data(&p->pending, data, size) != 0)
		return -ENOMEM;
	return 0;
}

static int send_pending(struct peer *p)
{
	int r;

	if (!p->pending)
		return 0;
	r = conn_send(p->fd, p->pending);
	if (r == 0) {
		kv_free(p->pending);
		p->pending = NULL;
	}
	return r;
}

/* Sends messages until the socket is full or no message is ready. Returns 0, or -errno: close the
 * connection. */
static int pump(struct peer *p)
{
	uint64_t now = loop_get_time(p->owner->loop);
	struct kv *kv;
	int r = send_pending(p);

	while (r == 0 && p->request) {
		r = request_next(p->request, now, &kv);
		if (r == REQUEST_LATER)
			p->owner->on_later(p->owner->arg);
		if (r == REQUEST_OVER)
			finish_request(p);
		if (r != REQUEST_MESSAGE)
			return r < 0 ? r : 0;
		r = conn_send(p->fd, kv);
		if (r == -EAGAIN)
			return keep(p, kv);
	}
	return r == -EAGAIN ? 0 : r;
}

void peer_pump(struct peer *p)
{
	if (pump(p) < 0)
		peer_close(p);
	else
		set_events(p);
}

static int receive(struct peer *p)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	int r = conn_recv(p->fd, &kv);

	if (r == -EAGAIN)
		return 0;
	if (r <= 0)
		return r < 0 ? r : -EPIPE;
	r = request_new(&p->request, p->owner->job, p->owner->log, kv);
	if (r < 0)
		return r;
	p->asked = true;
	if (request_is_lease(p->request) && !p->lease) {
		p->lease = true;
		p->owner->on_lease(p->owner->arg, p);
	}
	return 0;
}

static void on_socket(void *arg, uint32_t events)
{
	struct peer *p = arg;

	if ((events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN)) {
		peer_close(p);
		return;
	}
	if (!p->request && !p->pending && receive(p) < 0) {
		peer_close(p);
		return;
	}
	peer_pump(p);
}

int peer_new(struct peer **peerp, const struct peer_owner *owner, int fd)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		fd_closep(&fd);
		return -ENOMEM;
	}
	list_init(&p->node);
	p->owner = owner;
	p->fd = fd;
	p->source.fd = -1;
	p->since_ms = loop_get_time(owner->loop);
	r = loop_add(owner->loop, &p->source, fd, EPOLLIN, on_socket, p);
	if (r < 0) {
		fd_closep(&p->fd);
		free(p);
		return r;
	}
	*peerp = p;
	return 0;
}

void peer_close(struct peer *p)
{
	loop_remove(p->owner->loop, &p->source);
	fd_closep(&p->fd);
	list_remove(&p->node);
	p->owner->on_close(p->owner->arg, p);
	request_free(p->request);
	kv_free(p->pending);
	free(p);
}

bool peer_is_idle(const struct peer *p)
{
	return !p->request && !p->pending && !p->lease;
}

bool peer_may_make_room(const struct peer *p, uint64_t now_ms)
{
	return peer_is_idle(p) && now_ms - p->since_ms >= MIN_IDLE_MS;
}

uint64_t peer_get_since(const struct peer *p)
{
	return p->since_ms;
}

bool peer_is_lease(const struct peer *p)
{
	return p->lease;
}

bool peer_is_overdue(const struct peer *p, uint64_t now_ms)
{
	return peer_is_idle(p) && now_ms - p->since_ms >= (p->asked ? IDLE_MS : FIRST_REQUEST_MS);
}

struct list *peer_get_node(struct peer *p)
{
	return &p->node;
}

struct peer *peer_from_node(struct list *node)
{
	return list_entry(node, struct peer, node);
}
