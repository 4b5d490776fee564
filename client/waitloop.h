/*
 * waitloop: waits for descriptors, a deadline, a tick and the signals that end a client. INT,
 * TERM and HUP (or the signals that the caller names) are blocked while it is open, and are
 * reported by the return value. So a client can clean up, and no signal is lost between a check and
 * a wait.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/signalfd.h>

enum {
	WAITLOOP_READY = 1, /* a descriptor in fds has revents */
	WAITLOOP_TICK,
	WAITLOOP_TIMEOUT,
	WAITLOOP_SIGNAL, /* the signal is in loop->signal */
};

struct waitloop {
	int signal_fd;
	sigset_t old_mask;
	uint64_t deadline_ms;  /* in the time of clock_ms(); 0: none */
	uint64_t next_tick_ms; /* in the time of clock_ms(), 0: none; the caller may change it */
	struct signalfd_siginfo signal;
};

/* signals: a list that ends with 0; NULL: those of INT, TERM and HUP that are not ignored.
 * timeout_ms: 0 for none. Returns 0 or -errno. */
int waitloop_open(struct waitloop *l, const int *signals, uint64_t timeout_ms);

/* Closing twice is allowed, and so is closing a loop that is set to WAITLOOP_CLOSED. */
#define WAITLOOP_CLOSED                                                                            \
	{                                                                                          \
		.signal_fd = -1                                                                    \
	}
void waitloop_close(struct waitloop *l);

/* Returns whether INT, TERM or HUP is pending and not ignored. */
bool waitloop_is_interrupted(void);

/* Returns the signal mask from before waitloop_open(); for child processes. */
const sigset_t *waitloop_get_mask(const struct waitloop *l);

/* Returns one of WAITLOOP_* or -errno: -EINVAL for more than 256 descriptors. The order is: signal,
 * deadline, tick, descriptors. Descriptors stay ready for the next call. A tick sets next_tick_ms
 * to 0; the caller sets it again. */
int waitloop_wait(struct waitloop *l, struct pollfd *fds, size_t n_fds);
