/*
 * waitloop: waits for descriptors, a deadline, a tick and the signals that end a client. INT and
 * TERM (and other signals that the caller names) are blocked while it is open, and are reported by
 * the return value. So a client can clean up, and no signal is lost between a check and a wait.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/signalfd.h>

enum {
	WAITLOOP_READY = 1, /* a pollfd has revents */
	WAITLOOP_TICK,
	WAITLOOP_TIMEOUT,
	WAITLOOP_SIGNAL, /* loop->signal has it */
};

struct waitloop {
	int signal_fd;
	sigset_t old_mask;
	uint64_t deadline_ms;  /* of clock_ms(), 0: none */
	uint64_t next_tick_ms; /* the same; the caller may move it; 0: none */
	struct signalfd_siginfo signal;
};

/* signals: ended by 0, NULL: INT and TERM. timeout_ms 0: none. 0 or -errno. */
int waitloop_open(struct waitloop *l, const int *signals, uint64_t timeout_ms);

/* Closing twice is fine, if it was opened or set to WAITLOOP_CLOSED. */
#define WAITLOOP_CLOSED                                                                            \
	{                                                                                          \
		.signal_fd = -1                                                                    \
	}
void waitloop_close(struct waitloop *l);

/* What the process had blocked before; for children. */
const sigset_t *waitloop_get_mask(const struct waitloop *l);

/* One of WAITLOOP_*, or -errno. A signal comes first, then the deadline, the tick, descriptors
 * (they stay ready for the next call). A tick that is due is set to 0: the caller arms it again. */
int waitloop_wait(struct waitloop *l, struct pollfd *fds, size_t n_fds);
