#include "client/waitloop.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"

#define WAITLOOP_MAX_FDS 256

/* Adds the signals that end a client. A script's shell ignores INT for a command in the background,
 * and nohup ignores HUP. While such a signal is blocked, a signalfd would read it, so it is left
 * out. */
static void add_ending_signals(sigset_t *set)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(set, signals[i]);
}

int waitloop_open(struct waitloop *l, const int *signals, uint64_t timeout_ms)
{
	sigset_t set;

	*l = (struct waitloop)WAITLOOP_CLOSED;
	sigemptyset(&set);
	if (!signals)
		add_ending_signals(&set);
	for (; signals && *signals; signals++)
		sigaddset(&set, *signals);
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signal_fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, &l->old_mask);
	l->deadline_ms = timeout_ms ? clock_ms() + timeout_ms : 0;
	return 0;
}

void waitloop_close(struct waitloop *l)
{
	if (l->signal_fd < 0)
		return;
	close(l->signal_fd);
	l->signal_fd = -1;
	sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
}

bool waitloop_is_interrupted(void)
{
	sigset_t ending, pending;

	sigemptyset(&ending);
	sigemptyset(&pending);
	add_ending_signals(&ending);
	sigpending(&pending);
	return sigandset(&pending, &pending, &ending) == 0 && !sigisemptyset(&pending);
}

const sigset_t *waitloop_get_mask(const struct waitloop *l)
{
	return &l->old_mask;
}

static int remaining_ms(const struct waitloop *l)
{
	uint64_t now = clock_ms(), until = UINT64_MAX;

	if (l->deadline_ms)
		until = l->deadline_ms;
	if (l->next_tick_ms && l->next_tick_ms < until)
		until = l->next_tick_ms;
	if (until == UINT64_MAX)
		return -1;
	if (until <= now)
		return 0;
	return until - now > INT_MAX ? INT_MAX : (int)(until - now);
}

int waitloop_wait(struct waitloop *l, struct pollfd *fds, size_t n_fds)
{
	struct pollfd all[WAITLOOP_MAX_FDS + 1];
	bool ready = false;
	ssize_t n;
	int r;

	if (n_fds > WAITLOOP_MAX_FDS)
		return -EINVAL;
	for (;;) {
		if (n_fds)
			memcpy(all, fds, n_fds * sizeof(*fds));
		all[n_fds] = (struct pollfd){ .fd = l->signal_fd, .events = POLLIN };
		r = poll(all, n_fds + 1, remaining_ms(l));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		for (size_t i = 0; i < n_fds; i++) {
			fds[i].revents = all[i].revents;
			ready = ready || all[i].revents;
		}
		/* Check signals and times each time, so that a stream of messages cannot delay
		 * them. */
		n = all[n_fds].revents ? read(l->signal_fd, &l->signal, sizeof(l->signal)) : 0;
		if (n == (ssize_t)sizeof(l->signal))
			return WAITLOOP_SIGNAL;
		if (l->deadline_ms && clock_ms() >= l->deadline_ms)
			return WAITLOOP_TIMEOUT;
		if (l->next_tick_ms && clock_ms() >= l->next_tick_ms) {
			l->next_tick_ms = 0;
			return WAITLOOP_TICK;
		}
		if (ready)
			return WAITLOOP_READY;
	}
}
