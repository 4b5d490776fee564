/*
 * Without a keeper, stagingd forks and executes the workers itself, as its own user. The workers
 * mount by themselves (fusermount3), and daemon/stagingd/tier-dir.c makes the directories in tiers.
 * PR_SET_PDEATHSIG is not used: when stagingd dies, a worker notices the end of its socket and
 * removes what it has made, which it could not do after SIGKILL. A worker gets its socket as fd 3
 * and no other open descriptor. Its stdout is stderr, so that the output of a library does not get
 * into the output of the user's command.
 */
#include "daemon/stagingd/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/list.h"
#include "common/util/log.h"
#include "daemon/stagingd/loop.h"

struct launcher_local {
	struct launcher base;
	struct loop *loop;
	char *worker;
	struct list procs;
};

struct proc {
	struct list node;
	struct launcher_local *owner;
	struct loop_child child;
	struct loop_timer started; /* fires after the call of spawn(), because the answer must
				    * not come from inside it */
	uint32_t id;
	int failure;
};

static struct launcher_local *get_self(struct launcher *l)
{
	return (struct launcher_local *)l;
}

static void proc_free(struct proc *p)
{
	list_remove(&p->node);
	loop_child_remove(&p->child);
	loop_timer_cancel(&p->started);
	free(p);
}

static void on_exit_of(void *arg, int status)
{
	struct proc *p = arg;
	struct launcher_local *l = p->owner;
	uint32_t id = p->id;

	if (loop_timer_is_set(&p->started))
		l->base.events->spawned(l->base.arg, id, 0, p->child.pid);
	proc_free(p);
	l->base.events->exited(l->base.arg, id, status);
}

static void on_started(void *arg)
{
	struct proc *p = arg;
	struct launcher_local *l = p->owner;
	uint32_t id = p->id;
	int failure = p->failure;
	pid_t pid = p->child.pid;

	if (failure < 0)
		proc_free(p);
	l->base.events->spawned(l->base.arg, id, failure, pid);
}

/* Executes the worker in the forked child. Does not return. */
static void become_worker(const char *worker, int fd)
{
	char *const argv[] = { (char *)"stage-worker", NULL };
	int null;

	loop_restore_signals();
	if (fd != WORKER_FD_SOCKET && dup2(fd, WORKER_FD_SOCKET) < 0)
		_exit(126);
	fd_set_cloexec(WORKER_FD_SOCKET, false);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	fd_close_from(WORKER_FD_SOCKET + 1);
	execv(worker, argv);
	dprintf(STDERR_FILENO, "stagingd: exec %s: %s\n", worker, strerror(errno));
	_exit(127);
}

static void local_spawn(struct launcher *base, uint32_t id, enum keeper_class class, int fd)
{
	struct launcher_local *l = get_self(base);
	struct proc *p = calloc(1, sizeof(*p));
	pid_t pid;

	if (!p) {
		log_error("out of memory: worker %u is not started", id);
		fd_closep(&fd);
		return; /* the dataset fails later because of its stall limit */
	}
	list_init(&p->node);
	list_init(&p->child.node);
	loop_timer_init(&p->started, on_started, p);
	p->owner = l;
	p->id = id;
	list_append(&l->procs, &p->node);
	pid = fork();
	if (pid == 0)
		become_worker(l->worker, fd);
	if (pid < 0)
		p->failure = -errno;
	else
		loop_child_add(l->loop, &p->child, pid, on_exit_of, p);
	fd_closep(&fd);
	loop_timer_set(l->loop, &p->started, 0);
}

static void local_kill(struct launcher *base, uint32_t id, int sig)
{
	struct list *pos;

	list_for_each (pos, &get_self(base)->procs) {
		struct proc *p = list_entry(pos, struct proc, node);

		/* the child was not waited for yet, so the pid cannot belong to another process */
		if (p->id == id && p->failure == 0)
			kill(p->child.pid, sig);
	}
}

static void local_free(struct launcher *base)
{
	struct launcher_local *l = get_self(base);
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &l->procs)
		proc_free(list_entry(pos, struct proc, node));
	free(l->worker);
	free(l);
}

static const struct launcher_ops local_ops = {
	.free = local_free,
	.spawn = local_spawn,
	.kill = local_kill,
};

int launcher_local_new(struct launcher **lp, struct loop *loop, const char *worker,
		       const struct launcher_events *events, void *arg, struct error *err)
{
	struct launcher_local *l = calloc(1, sizeof(*l));

	if (!l)
		return error_set(err, ENOMEM, "out of memory");
	l->base = (struct launcher){ .ops = &local_ops, .events = events, .arg = arg };
	l->loop = loop;
	list_init(&l->procs);
	l->worker = strdup(worker);
	if (!l->worker) {
		free(l);
		return error_set(err, ENOMEM, "out of memory");
	}
	*lp = &l->base;
	return 0;
}
