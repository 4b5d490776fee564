/*
 * The verbs of common/protocol/keeper-verbs.h. Requests are numbered by us: a spawn by the id of
 * its worker, mounts, unmounts and tiers by numbers with a tag of their own in the upper bits, so
 * that the number in a reply identifies its request and no table of requests is needed. The socket
 * never blocks stagingd: packets that cannot be sent now wait in a list, in order.
 */
#include "daemon/stagingd/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/list.h"
#include "common/util/log.h"
#include "daemon/stagingd/loop.h"

#define MAX_FUSE_FDS 16
#define AGAIN_MS 100 /* before a packet is sent again for which the kernel had no resources */

enum request_tag {
	REQUEST_SPAWN = 0, /* the id of the worker itself, which is below 2^28 */
	REQUEST_MOUNT = 1,
	REQUEST_UNMOUNT = 2,
	REQUEST_TIER = 3,
	REQUEST_PLACE = 4,
	REQUEST_UNPLACE = 5,
};

#define REQUEST_ID(tag, n) ((uint32_t)(tag) << 28 | ((uint32_t)(n)&0x0fffffff))
#define REQUEST_TAG(id) ((id) >> 28)
#define REQUEST_NUMBER(id) ((id)&0x0fffffff)
/* bits for the tier's index; the bits above them are the slot of the dataset that asked */
#define TIER_BITS 20

struct launcher_keeper {
	struct launcher base;
	struct loop *loop;
	struct loop_source source;
	int fd;
	struct list waiting; /* list of struct parcel */
	struct loop_timer again;
};

struct parcel {
	struct list node;
	struct keeper_msg msg;
	int fd; /* -1: none */
};

static struct launcher_keeper *get_self(struct launcher *l)
{
	return (struct launcher_keeper *)l;
}

static void parcel_free(struct parcel *p)
{
	list_remove(&p->node);
	fd_closep(&p->fd);
	free(p);
}

/* ETOOMANYREFS: processes of the user, perhaps others, have sent so many descriptors that were not
 * read yet. */
static bool is_temporary(int r)
{
	return r == -ETOOMANYREFS || r == -ENOMEM || r == -ENOBUFS;
}

static void flush(struct launcher_keeper *k)
{
	bool full = false;

	loop_timer_cancel(&k->again);
	while (!list_is_empty(&k->waiting)) {
		struct parcel *p = list_entry(k->waiting.next, struct parcel, node);
		int r = packet_send(k->fd, &p->msg, sizeof(p->msg), &p->fd, p->fd >= 0,
				    MSG_DONTWAIT);

		full = r == -EAGAIN;
		if (is_temporary(r))
			loop_timer_set(k->loop, &k->again, AGAIN_MS);
		if (full || is_temporary(r))
			break;
		if (r < 0)
			log_error("send verb %u to the keeper: %s", p->msg.verb, strerror(-r));
		parcel_free(p);
	}
	loop_set_events(k->loop, &k->source, full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void on_again(void *arg)
{
	flush(arg);
}

/* Queues a message and sends it as soon as possible. Takes over fd. */
static void post(struct launcher_keeper *k, const struct keeper_msg *msg, int fd)
{
	struct parcel *p = malloc(sizeof(*p));

	if (!p) {
		log_error("out of memory: verb %u to the keeper is lost", msg->verb);
		fd_closep(&fd);
		return;
	}
	list_init(&p->node);
	p->msg = *msg;
	p->fd = fd;
	list_append(&k->waiting, &p->node);
	flush(k);
}

static void keeper_spawn(struct launcher *l, uint32_t id, enum keeper_class class, int fd)
{
	const struct keeper_msg msg = { .verb = KEEPER_SPAWN,
					.id = REQUEST_ID(REQUEST_SPAWN, id),
					.arg0 = class };

	post(get_self(l), &msg, fd);
}

/* Uses the id of the spawn, as the verb requires. Its reply is the second one with this id. */
static void keeper_kill(struct launcher *l, uint32_t id, int sig)
{
	const struct keeper_msg msg = { .verb = KEEPER_KILL,
					.id = REQUEST_ID(REQUEST_SPAWN, id),
					.arg0 = sig };

	post(get_self(l), &msg, -1);
}

static void keeper_mount(struct launcher *l, uint32_t slot, unsigned n_fds)
{
	const struct keeper_msg msg = {
		.verb = KEEPER_MOUNT,
		.id = REQUEST_ID(REQUEST_MOUNT, slot),
		.arg0 = slot,
		.arg1 = n_fds < 1	       ? 1
			: n_fds > MAX_FUSE_FDS ? MAX_FUSE_FDS
					       : n_fds,
	};

	post(get_self(l), &msg, -1);
}

static void keeper_unmount(struct launcher *l, uint32_t slot)
{
	const struct keeper_msg msg = { .verb = KEEPER_UNMOUNT,
					.id = REQUEST_ID(REQUEST_UNMOUNT, slot),
					.arg0 = slot };

	post(get_self(l), &msg, -1);
}

static void keeper_make_tier(struct launcher *l, uint32_t slot, uint32_t index, uint64_t mark,
			     bool keep)
{
	const struct keeper_msg msg = { .verb = KEEPER_TIER,
					.id = REQUEST_ID(REQUEST_TIER, slot << TIER_BITS | index),
					.arg0 = (int64_t)mark,
					.arg1 = keep };

	post(get_self(l), &msg, -1);
}

static void post_place(struct launcher *l, enum keeper_verb verb, uint32_t id, const char *name,
		       int fd, bool read_only)
{
	struct keeper_msg msg = { .verb = verb, .id = id, .arg0 = read_only };

	snprintf(msg.name, sizeof(msg.name), "%s", name);
	post(get_self(l), &msg, fd);
}

/* If fcntl() fails, the message has no descriptor; the keeper refuses it, so there is still a
 * reply. */
static void keeper_place(struct launcher *l, uint32_t slot, const char *name, int fd,
			 bool read_only)
{
	post_place(l, KEEPER_PLACE, REQUEST_ID(REQUEST_PLACE, slot), name,
		   fcntl(fd, F_DUPFD_CLOEXEC, 3), read_only);
}

static void keeper_unplace(struct launcher *l, uint32_t slot, const char *name)
{
	post_place(l, KEEPER_UNPLACE, REQUEST_ID(REQUEST_UNPLACE, slot), name, -1, false);
}

static void keeper_count(struct launcher *l, uint32_t count, uint64_t value)
{
	const struct keeper_msg msg = { .verb = KEEPER_COUNT, .id = count, .arg0 = (int64_t)value };

	post(get_self(l), &msg, -1);
}

static void keeper_serves(struct launcher *l, uint32_t id)
{
	const struct keeper_msg msg = { .verb = KEEPER_SERVES,
					.id = REQUEST_ID(REQUEST_SPAWN, id) };

	post(get_self(l), &msg, -1);
}

static void keeper_end(struct launcher *l)
{
	const struct keeper_msg msg = { .verb = KEEPER_END };

	post(get_self(l), &msg, -1);
}

static void on_reply(struct launcher_keeper *k, const struct keeper_msg *msg, const int *fds,
		     size_t n_fds)
{
	const struct launcher_events *ev = k->base.events;
	uint32_t n = REQUEST_NUMBER(msg->id);
	const enum request_tag tag = REQUEST_TAG(msg->id);
	const int64_t max = tag == REQUEST_TIER ? 07777 : 0; /* the mode of a refused tier */
	int r = msg->arg0 > max || msg->arg0 < -4095 ? -EPROTO : (int)msg->arg0;

	switch (tag) {
	case REQUEST_SPAWN:
		/* a kill's reply has the same id; the worker's owner knows which of the two this
		 * is */
		ev->spawned(k->base.arg, n, r, (pid_t)msg->arg1);
		break;
	case REQUEST_MOUNT:
		ev->mounted(k->base.arg, n, r == 0 && n_fds == 0 ? -EPROTO : r, fds, n_fds);
		break;
	case REQUEST_UNMOUNT:
		ev->unmounted(k->base.arg, n, r);
		break;
	case REQUEST_TIER:
		ev->tier_made(k->base.arg, n >> TIER_BITS, n & ((1u << TIER_BITS) - 1), r);
		break;
	case REQUEST_PLACE:
	case REQUEST_UNPLACE:
		ev->placed(k->base.arg, n, tag == REQUEST_UNPLACE, r);
		break;
	default:
		log_error("bug: the keeper answers request %u that was not made", msg->id);
	}
}

static void on_memory(struct launcher_keeper *k, const struct keeper_msg *msg)
{
	k->base.events->memory(k->base.arg, msg->arg0 > 0 ? (uint64_t)msg->arg0 : 0,
			       msg->arg1 > 0 ? (uint64_t)msg->arg1 : 0);
}

static void dispatch(struct launcher_keeper *k, const struct keeper_msg *msg, const int *fds,
		     size_t n_fds)
{
	switch ((enum keeper_verb)msg->verb) {
	case KEEPER_REPLY:
		on_reply(k, msg, fds, n_fds);
		break;
	case KEEPER_EXITED:
		k->base.events->exited(k->base.arg, REQUEST_NUMBER(msg->id), (int)msg->arg0);
		break;
	case KEEPER_MEMORY:
		on_memory(k, msg);
		break;
	case KEEPER_CANCEL:
		k->base.events->cancel(k->base.arg);
		break;
	default:
		log_error("bug: verb %u from the keeper", msg->verb);
	}
}

static void on_socket(void *arg, uint32_t events)
{
	struct launcher_keeper *k = arg;
	struct keeper_msg msg;
	int fds[PACKET_MAX_FDS], r;
	size_t n_fds;

	if (events & EPOLLOUT)
		flush(k);
	for (;;) {
		n_fds = ARRAY_SIZE(fds);
		r = packet_receive(k->fd, &msg, sizeof(msg), fds, &n_fds, MSG_DONTWAIT);
		if (r != 1)
			break;
		dispatch(k, &msg, fds, n_fds);
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
	}
	if (r == -EAGAIN)
		return;
	if (r < 0)
		log_error("receive from the keeper: %s", strerror(-r));
	loop_remove(k->loop, &k->source);
	k->base.events->gone(k->base.arg);
}

static void keeper_free(struct launcher *l)
{
	struct launcher_keeper *k = get_self(l);
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &k->waiting)
		parcel_free(list_entry(pos, struct parcel, node));
	loop_timer_cancel(&k->again);
	loop_remove(k->loop, &k->source);
	fd_closep(&k->fd);
	free(k);
}

static const struct launcher_ops keeper_ops = {
	.free = keeper_free,
	.spawn = keeper_spawn,
	.kill = keeper_kill,
	.mount = keeper_mount,
	.unmount = keeper_unmount,
	.make_tier = keeper_make_tier,
	.place = keeper_place,
	.unplace = keeper_unplace,
	.count = keeper_count,
	.serves = keeper_serves,
	.end = keeper_end,
};

int launcher_keeper_new(struct launcher **lp, struct loop *loop, int fd,
			const struct launcher_events *events, void *arg, struct error *err)
{
	struct launcher_keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k) {
		fd_closep(&fd);
		return error_set(err, ENOMEM, "out of memory");
	}
	k->base = (struct launcher){
		.ops = &keeper_ops, .events = events, .arg = arg, .mounts = true, .keeper = true
	};
	k->loop = loop;
	k->fd = fd;
	k->source.fd = -1;
	list_init(&k->waiting);
	loop_timer_init(&k->again, on_again, k);
	r = loop_add(loop, &k->source, fd, EPOLLIN, on_socket, k);
	if (r < 0) {
		keeper_free(&k->base);
		return error_errno(err, -r, "socket of the keeper (fd %d)", fd);
	}
	*lp = &k->base;
	return 0;
}
