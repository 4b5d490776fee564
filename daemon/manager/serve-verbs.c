/*
 * Each handler returns the result for the KEEPER_REPLY, which has the id of the request. Numbers
 * are checked here; everything else comes from the kernel's tables and our own record.
 */
#include "daemon/manager/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/tier.h"

/* A request and its answer. */
struct call {
	const struct keeper_msg *m;
	int fd;			 /* came with the request; -1: none */
	struct keeper_msg reply; /* verb 0: no reply is sent */
	int fds[PACKET_MAX_FDS];
	size_t n_fds;
	struct error err;
};

/* Returns the index of the child, or -1. */
static int find_child(const struct serve *s, uint32_t id)
{
	const struct state_proc *procs = s->k->st.procs;

	for (int i = 0; i < STATE_MAX_PROCS; i++)
		if (procs[i].pid && s->children[i].id == id &&
		    s->children[i].class != SERVE_CLASS_DAEMON)
			return i;
	return -1;
}

static pid_t find_worker(const struct serve *s, uint32_t id)
{
	const int i = find_child(s, id);

	return i < 0 ? 0 : s->k->st.procs[i].pid;
}

static int on_spawn(struct serve *s, struct call *c)
{
	const struct manager *k = s->k;
	const bool writer = c->m->arg0 == KEEPER_CLASS_WRITER;
	struct privops_spawn spawn = { .program = PRIVOP_PROGRAM_WORKER,
				       .fds = { c->fd },
				       .n_fds = 1,
				       .output = s->log_wr,
				       .nice = k->site.nice,
				       .flags = PRIVOP_SPAWN_GROUPS };

	if (c->fd < 0 || c->m->arg0 < 0 || c->m->arg0 >= KEEPER_N_CLASSES ||
	    find_worker(s, c->m->id))
		return -EINVAL;
	/* Slurm may have removed the job's cgroups since the last look, or may have made them after
	 * we stopped looking. */
	serve_look_for_memory(s);
	if (s->sock < 0)
		return -EPIPE;
	spawn.flags |= writer ? PRIVOP_SPAWN_WRITER | PRIVOP_SPAWN_DIES : PRIVOP_SPAWN_SERVER;
	c->reply.arg1 = serve_start(s, &spawn, c->m->id, (int)c->m->arg0);
	return c->reply.arg1 < 0 ? (int)c->reply.arg1 : 0;
}

static int on_kill(struct serve *s, struct call *c)
{
	pid_t pid = find_worker(s, c->m->id);

	if (c->m->arg0 != SIGTERM && c->m->arg0 != SIGKILL)
		return -EINVAL;
	return !pid ? -ESRCH : serve_kill(pid, (int)c->m->arg0);
}

static bool is_slot(const struct keeper_msg *m)
{
	return m->arg0 >= 0 && m->arg0 < RUNDIR_MAX_SLOTS;
}

static int on_mount(struct serve *s, struct call *c)
{
	const struct manager *k = s->k;
	const struct keeper_msg *m = c->m;
	int r;

	if (!is_slot(m) || m->arg1 < 1 || m->arg1 > PACKET_MAX_FDS)
		return error_set(&c->err, EINVAL, "a slot that does not exist");
	if (!k->site.mounts || s->slots[m->arg0])
		return error_set(&c->err, k->site.mounts ? EBUSY : EOPNOTSUPP, "no mount %d",
				 (int)m->arg0);
	r = mounts_slot(&k->dir, (uint32_t)m->arg0, c->fds, (size_t)m->arg1, &c->err);
	if (r == 0)
		c->n_fds = (size_t)m->arg1;
	s->slots[m->arg0] = r == 0;
	return r;
}

/* The connection is aborted as well: a server that hangs, or a copy of the mount in another
 * namespace, must not keep readers waiting. */
static int on_unmount(struct serve *s, struct call *c)
{
	int r;

	if (!is_slot(c->m) || !s->slots[c->m->arg0])
		return -EINVAL;
	mounts_abort(&s->k->dir, (uint32_t)c->m->arg0);
	r = mounts_detach(&s->k->dir, (uint32_t)c->m->arg0, &c->err);
	s->slots[c->m->arg0] = r < 0;
	return r;
}

static int on_tier(struct serve *s, struct call *c)
{
	struct helper_path p;
	char which[24];
	int r;

	snprintf(which, sizeof(which), "%lld", (long long)c->m->arg0);
	r = c->m->arg0 < 0 ? -EINVAL : manager_find_path(s->k, which, &p);
	if (r < 0)
		return r == -ENOENT ? -EINVAL : r;
	return tier_make(&s->k->dir, &s->k->st, &p, c->m->arg0, c->m->arg1 == 1, &c->err);
}

static int on_place(struct serve *s, struct call *c)
{
	const struct manager *k = s->k;
	struct helper_path ns = { .path = "" };
	int r = 0;

	if (c->fd < 0 || !memchr(c->m->name, '\0', sizeof(c->m->name)))
		return -EINVAL;
	if (k->site.has_namespace)
		r = manager_find_path(k, HELPER_NAMESPACE, &ns);
	/* A job in its own namespace would see an empty directory, so the worker makes a link
	 * instead. */
	else if (mounts_has_namespace(k->st.job_id))
		r = -EOPNOTSUPP;
	return r < 0 && r != -ENOENT
		       ? r
		       : mounts_place(&k->dir, c->m->name, c->fd, c->m->arg0 == 1, ns.path);
}

static int on_unplace(struct serve *s, struct call *c)
{
	if (!memchr(c->m->name, '\0', sizeof(c->m->name)))
		return -EINVAL;
	return mounts_unplace(&s->k->dir, c->m->name);
}

static int on_count(struct serve *s, struct call *c)
{
	const struct keeper_msg *m = c->m;
	const int64_t max = m->id < COUNT_N_THINGS ? COUNT_MAX_THINGS : COUNT_MAX_AMOUNT;

	if (m->id < COUNT_N && m->arg0 >= 0 && m->arg0 <= max)
		s->k->counts[m->id] = (uint64_t)m->arg0;
	c->reply.verb = 0;
	return 0;
}

static int on_serves(struct serve *s, struct call *c)
{
	const int i = find_child(s, c->m->id);

	if (i >= 0)
		s->children[i].class = KEEPER_CLASS_SERVER;
	c->reply.verb = 0;
	return 0;
}

static int on_end(struct serve *s, struct call *c)
{
	s->ended = true;
	c->reply.verb = 0;
	return 0;
}

/* Logs why a request was refused. A user's stagingd may send any number of such requests. */
static void log_refusal(struct serve *s, const struct error *err)
{
	if (s->log_size >= LOG_MAX_SIZE)
		return;
	s->log_size += sizeof(err->text);
	log_warning("%s%s", err->text,
		    s->log_size < LOG_MAX_SIZE
			    ? ""
			    : "; lines of the job's processes are left out from now on");
}

static void answer(struct serve *s, struct call *c, int r)
{
	if (c->err.code)
		log_refusal(s, &c->err);
	c->reply.arg0 = r;
	if (c->reply.verb)
		serve_tell(s, &c->reply, c->fds, c->n_fds);
	if (!c->n_fds)
		return;
	/* The manager keeps no copy of the descriptors: with a copy, readers would wait for a dead
	 * server. */
	for (size_t i = 0; i < c->n_fds; i++)
		close(c->fds[i]);
	serve_repeat_in_job(s->k, (uint32_t)c->m->arg0);
}

bool serve_verb(struct serve *s)
{
	static int (*const verbs[])(struct serve * s, struct call * c) = {
		[KEEPER_SPAWN] = on_spawn, [KEEPER_KILL] = on_kill,
		[KEEPER_MOUNT] = on_mount, [KEEPER_UNMOUNT] = on_unmount,
		[KEEPER_TIER] = on_tier,   [KEEPER_END] = on_end,
		[KEEPER_COUNT] = on_count, [KEEPER_SERVES] = on_serves,
		[KEEPER_PLACE] = on_place, [KEEPER_UNPLACE] = on_unplace,
	};
	_cleanup_(fd_closep) int fd = -1;
	struct keeper_msg m;
	struct call c = { .m = &m };
	size_t n_fds = 1;
	int r = packet_receive(s->sock, &m, sizeof(m), &fd, &n_fds, MSG_DONTWAIT);

	if (r == -EAGAIN)
		return false;
	if (r == 1 && m.verb < ARRAY_SIZE(verbs) && verbs[m.verb]) {
		c.fd = fd;
		c.reply = (struct keeper_msg){ .verb = KEEPER_REPLY, .id = m.id };
		answer(s, &c, verbs[m.verb](s, &c));
	} else if (r == 0 && s->end_ms) {
		s->ended = true;
	} else {
		serve_lose_daemon(s, r == 0 ? "has closed its end"
					    : "sent something that is none of our verbs");
	}
	return s->sock >= 0 && !s->ended;
}
