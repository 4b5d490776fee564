/*
 * The end of a worker is seen in two ways, by the end of its socket and by its exit, in either
 * order. Only the exit counts. The rest of the socket is read first, because a worker that has
 * nothing more to do exits directly after `ready`. To end a worker, `cancel` is sent, after
 * WORKER_GRACE_MS SIGKILL, and after WORKER_STUCK_MS stagingd gives up. One timer does both steps.
 * A limit on processes (pids.max of slurmd's cgroup) may be reached for a moment, so a start that
 * fails for this reason is tried once more. Until then, the worker's end of the socket, which
 * contains the task, is kept here.
 */
#include "daemon/stagingd/worker-proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/protocol/conn.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/loop.h"

#define MAX_BURST 32 /* messages of one worker that are read before other events are handled */
#define AGAIN_MS 500 /* time before a failed start is tried again */

struct worker_proc {
	struct loop *loop;
	struct launcher *launcher;
	uint32_t id;
	enum keeper_class class;
	int fd;
	struct loop_source source;
	struct loop_timer end; /* timer for the next step of ending the worker */
	struct loop_timer again;
	int theirs; /* the worker's end of the socket, kept until it is spawned; -1: there will
		     * be no further try */
	int came;   /* descriptor that came with the message that is being handled; -1: none */
	pid_t pid;  /* 0: not spawned yet */
	bool cancelled, killed;
	char broken[160]; /* why stagingd killed it; "": stagingd did not */
	const struct worker_events *events;
	void *arg;
};

uint32_t worker_proc_get_id(const struct worker_proc *w)
{
	return w->id;
}

static void close_socket(struct worker_proc *w)
{
	loop_remove(w->loop, &w->source);
	fd_closep(&w->fd);
}

int worker_proc_get_fd(const struct worker_proc *w)
{
	return w->came;
}

void worker_proc_free(struct worker_proc *w)
{
	if (!w)
		return;
	loop_timer_cancel(&w->end);
	loop_timer_cancel(&w->again);
	fd_closep(&w->theirs);
	close_socket(w);
	free(w);
}

static void describe_end(const struct worker_proc *w, int status, char *buf, size_t size)
{
	if (w->broken[0])
		snprintf(buf, size, "%s", w->broken);
	else if (WIFSIGNALED(status))
		snprintf(buf, size, "the worker was killed by signal %d (%s)%s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)),
			 WTERMSIG(status) == SIGKILL && !w->killed
				 ? ", out of memory perhaps; ask for more --mem"
				 : "");
	else if (WEXITSTATUS(status) > KEEPER_EXIT_EXEC)
		snprintf(buf, size, "the worker could not be started: %s",
			 strerror(WEXITSTATUS(status) - KEEPER_EXIT_EXEC));
	else if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127)
		snprintf(buf, size, "the worker could not be started");
	else
		snprintf(buf, size, "the worker ended with status %d and no reason; tell the site",
			 WEXITSTATUS(status));
}

static void tell_end(struct worker_proc *w, int status)
{
	char how[256];

	describe_end(w, status, how, sizeof(how));
	loop_timer_cancel(&w->end);
	loop_timer_cancel(&w->again);
	close_socket(w);
	w->events->ended(w->arg, status, how);
	worker_proc_free(w);
}

/* Kills the worker because it broke the protocol. */
static void break_off(struct worker_proc *w, const char *why)
{
	if (!w->broken[0] && !w->cancelled)
		snprintf(w->broken, sizeof(w->broken), "%s", why);
	close_socket(w);
	worker_proc_kill(w);
}

static void handle(struct worker_proc *w, const char *op, const struct kv *kv)
{
	char why[128];

	if (w->events->message(w->arg, op, kv))
		return;
	snprintf(why, sizeof(why), "the worker sent an unexpected '%.32s'", op);
	break_off(w, why);
}

/* Handles one message. Returns false if no message can be read now. */
static bool receive_one(struct worker_proc *w)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	size_t n_fds = 0;
	const char *op;
	int r;

	if (w->fd < 0)
		return false;
	r = conn_recv_fds(w->fd, &kv, &w->came, 1, &n_fds);
	if (r == -EAGAIN)
		return false;
	if (r == 0) {
		close_socket(w);
		if (!loop_timer_is_set(&w->end)) /* the worker must exit soon */
			loop_timer_set(w->loop, &w->end, WORKER_GRACE_MS);
		return false;
	}
	op = r == 1 ? proto_get_op(kv) : NULL;
	if (!op || (n_fds > 0 && strcmp(op, PROTO_OP_PLACE) != 0))
		break_off(w, "the worker sent an invalid message");
	else
		handle(w, op, kv);
	fd_closep(&w->came);
	return w->fd >= 0;
}

static void on_socket(void *arg, uint32_t events)
{
	struct worker_proc *w = arg;

	for (int i = 0; i < MAX_BURST && receive_one(w); i++)
		;
}

static void on_end_timer(void *arg)
{
	struct worker_proc *w = arg;

	if (!w->killed) {
		worker_proc_kill(w);
		return;
	}
	w->events->stuck(w->arg, w->pid);
	worker_proc_free(w);
}

void worker_proc_serves(struct worker_proc *w)
{
	if (w->class == KEEPER_CLASS_WRITER && w->launcher->ops->serves)
		w->launcher->ops->serves(w->launcher, w->id);
}

void worker_proc_kill(struct worker_proc *w)
{
	if (w->killed)
		return;
	w->killed = true;
	w->launcher->ops->kill(w->launcher, w->id, SIGKILL);
	loop_timer_set(w->loop, &w->end, WORKER_STUCK_MS);
}

void worker_proc_cancel(struct worker_proc *w)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (w->cancelled || w->killed)
		return;
	w->cancelled = true;
	kv = proto_new(PROTO_OP_CANCEL);
	if (!kv || w->fd < 0 || conn_send(w->fd, kv) < 0) {
		worker_proc_kill(w);
		return;
	}
	loop_timer_set(w->loop, &w->end, WORKER_GRACE_MS);
}

void worker_proc_send(struct worker_proc *w, const struct kv *kv, const int *fds, size_t n_fds)
{
	int r;

	if (w->fd < 0)
		return;
	r = kv ? conn_send_fds(w->fd, kv, fds, n_fds) : -ENOMEM;
	if (r == -EAGAIN)
		break_off(w, "the worker does not read its messages");
	else if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		break_off(w, "sending to the worker failed");
}

static void not_started(struct worker_proc *w, int r)
{
	snprintf(w->broken, sizeof(w->broken), "the worker could not be started: %s",
		 r == -EAGAIN
			 ? "twice no more processes could be created; wait and submit again, or "
			   "have the site "
			   "look at pids.max of slurmd's group"
			 : strerror(-r));
	tell_end(w, 127 << 8);
}

static void on_again(void *arg)
{
	struct worker_proc *w = arg;

	if (w->cancelled || w->killed)
		not_started(w, -EAGAIN);
	else
		w->launcher->ops->spawn(w->launcher, w->id, w->class, steal_fd(&w->theirs));
}

void worker_proc_on_spawned(struct worker_proc *w, int r, pid_t pid)
{
	if (w->pid)
		return; /* this is the reply to a kill */
	if (r == -EAGAIN && w->theirs >= 0 && !w->cancelled && !w->killed) {
		log_warning("a worker could not be started, as no more processes can be created: "
			    "trying again");
		loop_timer_set(w->loop, &w->again, AGAIN_MS);
		return;
	}
	if (r < 0) {
		not_started(w, r);
		return;
	}
	fd_closep(&w->theirs);
	w->pid = pid > 0 ? pid : -1;
	w->events->started(w->arg, pid);
}

void worker_proc_on_exited(struct worker_proc *w, int status)
{
	while (receive_one(w))
		;
	tell_end(w, status);
}

int worker_proc_new(struct worker_proc **wp, struct loop *loop, struct launcher *launcher,
		    uint32_t id, enum keeper_class class, const struct kv *task, int keys_fd,
		    const struct worker_events *events, void *arg, struct error *err)
{
	struct worker_proc *w = calloc(1, sizeof(*w));
	int fds[2] = { -1, -1 }, r;

	if (!w)
		return error_set(err, ENOMEM, "out of memory");
	*w = (struct worker_proc){
		.loop = loop,
		.launcher = launcher,
		.id = id,
		.class = class,
		.fd = -1,
		.came = -1,
		.source.fd = -1,
		.theirs = -1,
		.events = events,
		.arg = arg,
	};
	loop_timer_init(&w->end, on_end_timer, w);
	loop_timer_init(&w->again, on_again, w);
	r = conn_pair(fds);
	if (r == 0) {
		w->fd = fds[0];
		r = fd_set_nonblock(w->fd, true);
	}
	if (r == 0)
		r = loop_add(loop, &w->source, w->fd, EPOLLIN, on_socket, w);
	if (r == 0)
		r = conn_send_fds(w->fd, task, &keys_fd, keys_fd >= 0);
	if (r < 0) {
		fd_closep(&fds[1]);
		worker_proc_free(w);
		return error_errno(err, -r, "prepare a worker");
	}
	w->theirs = fcntl(fds[1], F_DUPFD_CLOEXEC, 3); /* on failure, only one try is made */
	launcher->ops->spawn(launcher, id, class, fds[1]);
	*wp = w;
	return 0;
}
