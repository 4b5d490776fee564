/*
 * Each handler answers with KEEPER_REPLY and the id it was asked with. Numbers are checked here; the
 * rest is the kernel's tables and our own record.
 */
#include "daemon/keeper/serve.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "daemon/keeper/abort.h"
#include "daemon/keeper/jobmem.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/tier.h"
#include "daemon/keeper/verbs.h"

static struct worker *find_worker(struct serve *s, uint32_t id)
{
	for (size_t i = 0; i < SERVE_MAX_WORKERS; i++)
		if (s->workers[i].pid && s->workers[i].id == id)
			return &s->workers[i];
	return NULL;
}

static int spawn(struct serve *s, const struct keeper_msg *m, int fd, pid_t *pidp)
{
	static const char *const argv[] = { "stage-worker", NULL };
	const struct keeper *k = s->k;
	const bool writer = m->arg0 == KEEPER_CLASS_WRITER;
	struct launch l = { .user = &k->user, .program = k->worker_fd, .argv = argv, .n_fds = 1,
			    .output = s->log_wr, .nice = k->conf->nice, .dies_with_us = writer,
			    .oom_score_adj = writer ? 1000 : 0 };
	cpu_set_t cpus[LAUNCH_MAX_CPUS / CPU_SETSIZE];
	struct worker *w = s->workers;
	int r;

	if (fd < 0 || m->arg0 < 0 || m->arg0 >= KEEPER_N_CLASSES || find_worker(s, m->id))
		return -EINVAL;
	while (w < s->workers + SERVE_MAX_WORKERS && w->pid)
		w++;
	if (w == s->workers + SERVE_MAX_WORKERS)
		return -EAGAIN;
	l.fds[0] = fd;
	if (writer && s->memory_group[0])
		l.group = s->memory_group;
	if (jobmem_get_cpus(k->uid, k->job_id, cpus, sizeof(cpus)) == 0)
		l.cpus = cpus;
	r = serve_start(s, &l, pidp);
	if (r == 0)
		*w = (struct worker){ *pidp, m->id, (enum keeper_class)m->arg0 };
	return r;
}

static void on_spawn(struct serve *s, const struct keeper_msg *m, int fd)
{
	pid_t pid = 0;
	int r = spawn(s, m, fd, &pid);

	serve_tell(s, KEEPER_REPLY, m->id, r, pid);
}

static void on_kill(struct serve *s, const struct keeper_msg *m, int fd)
{
	struct worker *w = find_worker(s, m->id);
	int r = 0;

	if (m->arg0 != SIGTERM && m->arg0 != SIGKILL)
		r = -EINVAL;
	else if (!w)
		r = -ESRCH;
	else if (kill(w->pid, (int)m->arg0) < 0)
		r = -errno;
	serve_tell(s, KEEPER_REPLY, m->id, r, 0);
}

static int mount_slot(struct serve *s, const struct keeper_msg *m, int *fds, struct error *err)
{
	const struct keeper *k = s->k;
	int r;

	if (m->arg0 < 0 || m->arg0 >= RUNDIR_MAX_SLOTS || m->arg1 < 1 || m->arg1 > VERBS_MAX_FDS)
		return error_set(err, EINVAL, "a slot that does not exist");
	if (!k->conf->mount_fuse || s->slots[m->arg0])
		return error_set(err, k->conf->mount_fuse ? EBUSY : EOPNOTSUPP, "no mount %d",
				 (int)m->arg0);
	r = mounts_slot(k->dir.fd, (unsigned)m->arg0, k->uid, k->gid, fds, (size_t)m->arg1, err);
	s->slots[m->arg0] = r == 0;
	return r;
}

static void on_mount(struct serve *s, const struct keeper_msg *m, int fd)
{
	struct error err = ERROR_INIT;
	int fds[VERBS_MAX_FDS], r = mount_slot(s, m, fds, &err);
	char name[MOUNTS_SLOT_SIZE];
	struct keeper_msg reply = { KEEPER_REPLY, m->id, r, 0 };

	if (r < 0) {
		log_warning("%s", err.text);
		serve_tell(s, KEEPER_REPLY, m->id, r, 0);
		return;
	}
	/* No copy of the descriptors stays here: it would keep readers waiting for a dead server. */
	r = verbs_send(s->sock, &reply, fds, (size_t)m->arg1);
	for (int i = 0; i < m->arg1; i++)
		close(fds[i]);
	if (r < 0)
		serve_lose_daemon(s, "does not listen");
	mounts_slot_name(name, (unsigned)m->arg0);
	serve_repeat_in_job(s->k, name);
	serve_set_timer(s);
}

/* The connection is aborted as well: a server that hangs, or a copy of the mount in another
 * namespace, must not keep readers waiting. */
static void on_unmount(struct serve *s, const struct keeper_msg *m, int fd)
{
	struct keeper *k = s->k;
	char name[MOUNTS_SLOT_SIZE];
	int r = -EINVAL;

	if (m->arg0 >= 0 && m->arg0 < RUNDIR_MAX_SLOTS && s->slots[m->arg0]) {
		mounts_slot_name(name, (unsigned)m->arg0);
		abort_slot(k->dir.fd, (unsigned)m->arg0);
		r = mounts_detach(k->dir.fd, name, NULL);
		s->slots[m->arg0] = r < 0;
		serve_set_timer(s);
	}
	serve_tell(s, KEEPER_REPLY, m->id, r, 0);
}

static void on_tier(struct serve *s, const struct keeper_msg *m, int fd)
{
	const struct conf *conf = s->k->conf;
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	int r = -EINVAL;

	if (m->arg0 >= 0 && (size_t)m->arg0 < conf->n_tiers &&
	    conf->tiers[m->arg0].kind == CONF_TIER_DISK) {
		r = keeper_expand(s->k, conf->tiers[m->arg0].path, path, &err);
		if (r == 0)
			r = tier_make(s->k->dir.fd, &s->k->st, path,
				      conf->tiers[m->arg0].provided_by_site, &err);
		if (r < 0)
			log_warning("%s", err.text);
	}
	serve_tell(s, KEEPER_REPLY, m->id, r, 0);
}

static void on_end(struct serve *s, const struct keeper_msg *m, int fd)
{
	s->ended = true;
}

void serve_verb(struct serve *s)
{
	static const struct {
		enum keeper_verb verb;
		void (*fn)(struct serve *s, const struct keeper_msg *m, int fd);
	} verbs[] = {
		{ KEEPER_SPAWN, on_spawn },     { KEEPER_KILL, on_kill }, { KEEPER_MOUNT, on_mount },
		{ KEEPER_UNMOUNT, on_unmount }, { KEEPER_TIER, on_tier }, { KEEPER_END, on_end },
	};
	_cleanup_(fd_closep) int fd = -1;
	struct keeper_msg m;
	size_t i = 0;
	int r = verbs_receive(s->sock, &m, &fd);

	if (r == -EAGAIN)
		return;
	while (r == 1 && i < ARRAY_SIZE(verbs) && verbs[i].verb != m.verb)
		i++;
	if (r == 1 && i < ARRAY_SIZE(verbs))
		verbs[i].fn(s, &m, fd);
	else if (r == 0 && s->end_ms)
		s->ended = true;
	else if (r == 0)
		serve_lose_daemon(s, "has closed its end");
	else
		serve_lose_daemon(s, "sent something that is none of our verbs");
}

