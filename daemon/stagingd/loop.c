/*
 * The loop uses level-triggered epoll. It keeps the events of a round, so a source that a callback
 * removes is also removed from the rest of the round and may be freed at once. Timers are in a
 * plain list that is searched for the earliest, because there are only a few for each dataset and
 * none for each connection (the server has one timer for all peers). Each registered child is
 * waited for by its pid. A pidfd is not needed, because a child's pid is not used again until the
 * child was waited for.
 */
#include "daemon/stagingd/loop.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/keeper-verbs.h"
#include "common/util/fd.h"

#define LOOP_BATCH 64

struct loop {
	int epoll_fd;
	int signal_fd;
	struct loop_source signals;
	void (*on_signal)(void *arg, int sig);
	void *on_signal_arg;
	struct list timers, children;
	struct epoll_event batch[LOOP_BATCH];
	int n_batch;
	uint64_t now_ms;
	bool stopped;
};

int loop_new(struct loop **lp)
{
	_cleanup_(loop_freep) struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->signal_fd = -1;
	l->signals.fd = -1;
	list_init(&l->timers);
	list_init(&l->children);
	l->now_ms = clock_ms();
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return -errno;
	*lp = steal_ptr(l);
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	fd_closep(&l->signal_fd);
	fd_closep(&l->epoll_fd);
	free(l);
}

int loop_add(struct loop *l, struct loop_source *s, int fd, uint32_t events,
	     void (*fn)(void *arg, uint32_t events), void *arg)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	*s = (struct loop_source){ .fd = fd, .events = events, .fn = fn, .arg = arg };
	return 0;
}

void loop_set_events(struct loop *l, struct loop_source *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	if (s->fd < 0 || s->events == events)
		return;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, s->fd, &ev) == 0)
		s->events = events;
}

void loop_remove(struct loop *l, struct loop_source *s)
{
	if (s->fd < 0)
		return;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
	for (int i = 0; i < l->n_batch; i++)
		if (l->batch[i].data.ptr == s)
			l->batch[i].data.ptr = NULL;
}

void loop_timer_init(struct loop_timer *t, void (*fn)(void *arg), void *arg)
{
	list_init(&t->node);
	t->fn = fn;
	t->arg = arg;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t after_ms)
{
	list_remove(&t->node);
	t->due_ms = l->now_ms + after_ms;
	list_append(&l->timers, &t->node);
}

void loop_timer_cancel(struct loop_timer *t)
{
	list_remove(&t->node);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return !list_is_empty(&t->node);
}

static struct loop_timer *get_next_timer(struct loop *l)
{
	struct loop_timer *next = NULL;
	struct list *pos;

	list_for_each (pos, &l->timers) {
		struct loop_timer *t = list_entry(pos, struct loop_timer, node);

		if (!next || t->due_ms < next->due_ms)
			next = t;
	}
	return next;
}

/* Runs the timers that were due when the round began. A timer that a callback sets again runs in a
 * later round. */
static void run_timers(struct loop *l)
{
	struct list due, *pos, *tmp;

	list_init(&due);
	list_for_each_safe (pos, tmp, &l->timers) {
		if (list_entry(pos, struct loop_timer, node)->due_ms > l->now_ms)
			continue;
		list_remove(pos);
		list_append(&due, pos);
	}
	while (!list_is_empty(&due)) {
		struct loop_timer *t = list_entry(due.next, struct loop_timer, node);

		list_remove(&t->node);
		t->fn(t->arg);
	}
}

void loop_child_add(struct loop *l, struct loop_child *c, pid_t pid,
		    void (*fn)(void *arg, int status), void *arg)
{
	list_remove(&c->node);
	c->pid = pid;
	c->fn = fn;
	c->arg = arg;
	list_append(&l->children, &c->node);
}

void loop_child_remove(struct loop_child *c)
{
	list_remove(&c->node);
}

/* A callback may remove any child, so the search starts again after each. */
static void reap_children(struct loop *l)
{
	struct list *pos;
	int status;

again:
	list_for_each (pos, &l->children) {
		struct loop_child *c = list_entry(pos, struct loop_child, node);
		pid_t pid = waitpid(c->pid, &status, WNOHANG);

		if (pid == 0 || (pid < 0 && errno != ECHILD))
			continue;
		list_remove(&c->node);
		c->fn(c->arg, pid < 0 ? 0 : status);
		goto again;
	}
}

static void on_signal_fd(void *arg, uint32_t events)
{
	struct loop *l = arg;
	struct signalfd_siginfo info;

	while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (l->on_signal)
			l->on_signal(l->on_signal_arg, (int)info.ssi_signo);
	}
	reap_children(l);
}

static bool is_ignored(int sig)
{
	struct sigaction old;

	return sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

/* Disposition of SIGHUP at start. If a cleaner has started this process, SIGHUP is ignored, and its
 * workers must ignore it, too. */
static void (*hangup_before)(int) = SIG_DFL;

int loop_catch_signals(struct loop *l, void (*fn)(void *arg, int sig), void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	/* A process started by a cleaner ignores SIGTERM and SIGINT, and gets another signal
	 * instead. */
	sigaddset(&set, is_ignored(SIGTERM) ? CLEANER_SIGNAL_DIED : SIGTERM);
	if (!is_ignored(SIGINT))
		sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	hangup_before = signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	l->on_signal = fn;
	l->on_signal_arg = arg;
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signal_fd < 0)
		return -errno;
	return loop_add(l, &l->signals, l->signal_fd, EPOLLIN, on_signal_fd, l);
}

void loop_restore_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, hangup_before);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

uint64_t loop_get_time(const struct loop *l)
{
	return l->now_ms;
}

static int get_timeout(struct loop *l)
{
	const struct loop_timer *t = get_next_timer(l);

	if (!t)
		return -1;
	if (t->due_ms <= l->now_ms)
		return 0;
	return t->due_ms - l->now_ms > INT_MAX ? INT_MAX : (int)(t->due_ms - l->now_ms);
}

int loop_run(struct loop *l)
{
	while (!l->stopped) {
		int n;

		l->now_ms = clock_ms();
		n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, get_timeout(l));
		if (n < 0 && errno != EINTR)
			return -errno;
		l->now_ms = clock_ms();
		l->n_batch = n > 0 ? n : 0;
		for (int i = 0; i < l->n_batch; i++) {
			struct loop_source *s = l->batch[i].data.ptr;

			if (s)
				s->fn(s->arg, l->batch[i].events);
		}
		l->n_batch = 0;
		run_timers(l);
	}
	return 0;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}
