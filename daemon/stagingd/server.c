/*
 * SO_PEERCRED shows the uid of each client before a byte is read; connections of other users are
 * closed. If all places are used, the connection that was idle for the longest time is closed. If
 * no connection is idle, the new client gets a `done` with the reason. One descriptor is kept in
 * reserve: if no descriptor is free, accept() fails and the listening socket stays readable for
 * ever. Then the reserve is used to accept the connection and close it.
 */
#include "daemon/stagingd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/peer.h"
#include "daemon/stagingd/request.h"

#define MAX_PEERS 1200
/* descriptors for workers, asynchronous calls and files that are passed to workers */
#define OTHER_FDS 256
#define SWEEP_MS 1000
#define LEASE_GRACE_MS 60000 /* time for the first lease to be taken */

struct server {
	struct server_options o;
	struct peer_owner owner;
	struct loop_source source;
	struct loop_timer soon, later, sweep, grace;
	struct list peers; /* list of peers, the oldest first */
	size_t n_peers, max_peers, n_leases;
	int reserve_fd;
	uint64_t n_foreign; /* connections of other users so far */
	bool freeing;
};

static size_t choose_max_peers(void)
{
	struct rlimit lim;
	rlim_t want = MAX_PEERS + OTHER_FDS;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return MAX_PEERS / 4;
	if (lim.rlim_cur < want) {
		lim.rlim_cur = lim.rlim_max < want ? lim.rlim_max : want;
		setrlimit(RLIMIT_NOFILE, &lim);
		getrlimit(RLIMIT_NOFILE, &lim);
	}
	if (lim.rlim_cur >= want)
		return MAX_PEERS;
	return lim.rlim_cur > OTHER_FDS + 16 ? (size_t)lim.rlim_cur - OTHER_FDS : 16;
}

/* --- events of peers --- */

static void on_peer_close(void *arg, struct peer *peer)
{
	struct server *s = arg;

	s->n_peers--;
	if (!peer_is_lease(peer) || --s->n_leases > 0 || s->freeing || !s->o.leases)
		return;
	log_info("the last lease is closed");
	job_end(s->o.job);
}

static void on_peer_lease(void *arg, struct peer *peer)
{
	struct server *s = arg;

	s->n_leases++;
	loop_timer_cancel(&s->grace);
}

static void on_peer_later(void *arg)
{
	server_notify(arg, false);
}

static void on_no_lease(void *arg)
{
	struct server *s = arg;

	log_warning("nobody took a lease within %d s", LEASE_GRACE_MS / 1000);
	job_end(s->o.job);
}

/* --- accepting connections --- */

/* Closes the connection that is idle for the longest time. */
static bool make_room(struct server *s)
{
	const uint64_t now_ms = loop_get_time(s->o.loop);
	struct peer *longest = NULL;
	struct list *pos;

	list_for_each (pos, &s->peers) {
		struct peer *peer = peer_from_node(pos);

		if (peer_may_make_room(peer, now_ms) &&
		    (!longest || peer_get_since(peer) < peer_get_since(longest)))
			longest = peer;
	}
	if (longest)
		peer_close(longest);
	return longest;
}

/* Reports that there are too many connections. A byte is read first: if data is unread at close(),
 * the client gets a reset and may not read the reason. */
static void refuse_full(int fd)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_DONE);
	char byte;

	if (!kv || recv(fd, &byte, 1, MSG_DONTWAIT) == 0)
		return;
	kv_set_u64(kv, "code", STAGE_EXIT_NO_STAGING);
	kv_set(kv, "text", "stagingd has too many connections; try again");
	conn_send(fd, kv);
}

static bool may_talk(struct server *s, int fd)
{
	uid_t uid;
	int r = conn_get_peer(fd, &uid, NULL);

	if (r == 0 && (uid == geteuid() || uid == 0))
		return true;
	s->n_foreign++;
	if (s->n_foreign & (s->n_foreign - 1)) /* log only the 1st, 2nd, 4th, 8th … time */
		return false;
	if (r < 0)
		log_warning("refused a connection: %s", strerror(-r));
	else
		log_warning("refused a connection of uid %u", (unsigned)uid);
	return false;
}

static void take(struct server *s, int fd)
{
	_cleanup_(fd_closep) int owned = fd;
	struct peer *peer;

	if (!may_talk(s, fd))
		return;
	if (s->n_peers >= s->max_peers && !make_room(s)) {
		refuse_full(fd);
		return;
	}
	if (peer_new(&peer, &s->owner, steal_fd(&owned)) < 0)
		return;
	list_append(&s->peers, peer_get_node(peer));
	s->n_peers++;
	if (!loop_timer_is_set(&s->sweep))
		loop_timer_set(s->o.loop, &s->sweep, SWEEP_MS);
}

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* No descriptor is free: uses the reserve to accept one connection and close it. */
static bool spend_reserve(struct server *s)
{
	int fd;

	if (s->reserve_fd < 0)
		return false;
	fd_closep(&s->reserve_fd);
	fd = accept4(s->o.fd, NULL, NULL, SOCK_CLOEXEC);
	fd_closep(&fd);
	s->reserve_fd = open_reserve();
	return true;
}

static void on_listen(void *arg, uint32_t events)
{
	struct server *s = arg;

	for (int i = 0; i < 64; i++) {
		int fd = accept4(s->o.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			take(s, fd);
			continue;
		}
		if ((errno != EMFILE && errno != ENFILE) || !spend_reserve(s))
			return;
	}
}

/* --- sending answers --- */

void server_flush(struct server *s)
{
	struct list *pos, *tmp;

	loop_timer_cancel(&s->soon);
	loop_timer_cancel(&s->later);
	list_for_each_safe (pos, tmp, &s->peers) {
		struct peer *peer = peer_from_node(pos);

		if (!peer_is_idle(peer))
			peer_pump(peer);
	}
}

static void on_flush(void *arg)
{
	server_flush(arg);
}

void server_notify(struct server *s, bool urgent)
{
	struct loop_timer *t = urgent ? &s->soon : &s->later;

	if (!loop_timer_is_set(t))
		loop_timer_set(s->o.loop, t, urgent ? 0 : REQUEST_INTERVAL_MS);
}

static void on_sweep(void *arg)
{
	struct server *s = arg;
	uint64_t now = loop_get_time(s->o.loop);
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &s->peers) {
		struct peer *peer = peer_from_node(pos);

		if (peer_is_overdue(peer, now))
			peer_close(peer);
	}
	if (s->n_peers > 0)
		loop_timer_set(s->o.loop, &s->sweep, SWEEP_MS);
}

/* --- life --- */

static void init(struct server *s)
{
	list_init(&s->peers);
	loop_timer_init(&s->soon, on_flush, s);
	loop_timer_init(&s->later, on_flush, s);
	loop_timer_init(&s->sweep, on_sweep, s);
	loop_timer_init(&s->grace, on_no_lease, s);
	s->source.fd = -1;
	s->owner = (struct peer_owner){
		.loop = s->o.loop,
		.job = s->o.job,
		.log = s->o.log,
		.on_close = on_peer_close,
		.on_lease = on_peer_lease,
		.on_later = on_peer_later,
		.arg = s,
	};
	s->max_peers = choose_max_peers();
	s->reserve_fd = open_reserve();
}

int server_new(struct server **sp, const struct server_options *options, struct error *err)
{
	_cleanup_(server_freep) struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->o = *options;
	init(s);
	if (listen(s->o.fd, MAX_PEERS) < 0)
		return error_errno(err, errno, "listen on the job's socket (fd %d)", s->o.fd);
	r = fd_set_nonblock(s->o.fd, true);
	if (r == 0)
		r = loop_add(s->o.loop, &s->source, s->o.fd, EPOLLIN, on_listen, s);
	if (r < 0)
		return error_errno(err, -r, "the job's socket (fd %d)", s->o.fd);
	if (s->o.leases)
		loop_timer_set(s->o.loop, &s->grace, LEASE_GRACE_MS);
	*sp = steal_ptr(s);
	return 0;
}

void server_free(struct server *s)
{
	struct list *pos, *tmp;

	if (!s)
		return;
	s->freeing = true;
	list_for_each_safe (pos, tmp, &s->peers)
		peer_close(peer_from_node(pos));
	loop_timer_cancel(&s->soon);
	loop_timer_cancel(&s->later);
	loop_timer_cancel(&s->sweep);
	loop_timer_cancel(&s->grace);
	loop_remove(s->o.loop, &s->source);
	fd_closep(&s->reserve_fd);
	fd_closep(&s->o.fd);
	free(s);
}
