/*
 * Only the lock decides which task is the starter: if the task with local id 0 does not come (it
 * may have ended before, or may not run stagectl at all), another task takes its role after
 * PATIENCE_MS. So no task waits for a task that does not exist.
 *
 * Before the starter gives its lease back it waits for the other tasks of the node, as many as
 * the launcher says there are: a command that is through at once must not take the data away from
 * under a task that is still being started.
 *
 * INT, TERM and HUP are blocked while a daemon is started: a process that they ended between that
 * and the lease would leave a daemon that nobody ends. The next wait reads them. USR1 and USR2 are
 * for COMMAND. They are blocked until it exists, and are then passed on.
 */
#include "client/run-session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "client/output.h"
#include "client/run-cleaner.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/util/fd.h"

#define PATIENCE_MS 10000
#define OPEN_MS 30000
#define CHECK_IN_MS 10000
#define LEASE_MS 10000
#define CLEANUP_S 90
#define LOOK_MS 200 /* how often a socket that exists and does not answer is tried again */

/* Joins a running daemon. Returns 0, or -EAGAIN if there is none, or if it is ending. */
static int join(struct run_session *s)
{
	static const struct rpc_handler h = { .deaf = true, .timeout_ms = LEASE_MS };
	_cleanup_(kv_freep) struct kv *request = NULL;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" RUNDIR_SOCK, s->dir.path) >= (int)sizeof(path) ||
	    run_dir_join(&s->dir) < 0)
		return -EAGAIN;
	request = proto_new(PROTO_OP_LEASE);
	if (rpc_open_path(&s->lease, path, NULL) == 0 &&
	    rpc_call(s->lease, request, &h, NULL) == 0 && rpc_open_path(&s->rpc, path, NULL) == 0) {
		run_dir_check_in(&s->dir, s->place->local_id);
		return 0;
	}
	rpc_close(s->lease);
	s->lease = NULL;
	run_dir_leave(&s->dir);
	if (s->dir.users_fd >= 0)
		close(steal_fd(&s->dir.users_fd));
	return -EAGAIN;
}

/* Sleeps until the run directory changes, or until LOOK_MS are over. */
static void wait_for_change(int inotify_fd)
{
	struct pollfd p = { .fd = inotify_fd, .events = POLLIN };
	char events[4096];

	if (poll(&p, 1, LOOK_MS) > 0 && read(inotify_fd, events, sizeof(events)) < 0)
		return;
}

/* Waits until the socket exists (0), or until this process should start a daemon (-EAGAIN). */
static int join_or_wait(struct run_session *s, uint64_t patience_ms, uint64_t until_ms)
{
	_cleanup_(fd_closep) int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int r;

	if (fd < 0 ||
	    inotify_add_watch(fd, s->dir.path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF) < 0)
		return -EAGAIN;
	do {
		r = join(s);
		if (r == 0)
			return 0;
		wait_for_change(fd);
	} while (clock_ms() < patience_ms && clock_ms() < until_ms &&
		 access(s->dir.path, F_OK) == 0);
	return -EAGAIN;
}

static int start(struct run_session *s, const char *spec, struct error *err)
{
	int r;

	r = run_cleaner_start(&s->dir, s->place->job_id, spec, &s->report_fd, err);
	if (r < 0) {
		run_dir_remove(&s->dir, NULL);
		return r;
	}
	r = join(s);
	if (r < 0) {
		error_exit(err, STAGE_EXIT_NO_STAGING, EPIPE, "stagingd does not start");
		run_session_explain(s, err);
	}
	return r;
}

static int open_blocked(struct run_session *s, const struct run_place *place, const char *spec,
			struct error *err)
{
	uint64_t now_ms = clock_ms(), until_ms = now_ms + OPEN_MS;
	bool patient = place->shared && place->local_id > 0;
	uint64_t patience_ms = now_ms + (patient ? PATIENCE_MS : 0);
	int r;

	s->place = place;
	while (clock_ms() < until_ms) {
		r = run_dir_open(&s->dir, place->key, err);
		if (r < 0)
			return r;
		r = patient ? 0 : run_dir_try_own(&s->dir, err);
		if (r < 0)
			return r;
		if (r > 0)
			return start(s, spec, err);
		if (join_or_wait(s, patience_ms, until_ms) == 0)
			return 0;
		patient = patient && clock_ms() < patience_ms;
		run_dir_close(&s->dir);
	}
	return error_exit(err, STAGE_EXIT_NO_STAGING, ETIMEDOUT,
			  "another 'stagectl run' of this step holds %s and does not answer",
			  s->dir.path);
}

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };

int run_session_open(struct run_session *s, const struct run_place *place, const char *spec,
		     struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	s->is_masked = true;
	return open_blocked(s, place, spec, err);
}

/* Signals that are still pending are discarded, because they would end this process and replace its
 * exit status: a USR1 or USR2 without COMMAND, and those that came during the clean-up. */
static void restore_signals(struct run_session *s)
{
	if (!s->is_masked)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_IGN);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	s->is_masked = false;
}

void run_session_close(struct run_session *s)
{
	bool last;

	if (!s->lease)
		goto out;
	if (s->place->shared && s->place->local_id == 0 && s->place->n_local > 1)
		run_dir_wait_checked_in(&s->dir, s->place->n_local, CHECK_IN_MS);
	rpc_close(s->rpc);
	s->rpc = NULL;
	last = run_dir_leave(&s->dir);
	rpc_close(s->lease);
	s->lease = NULL;
	if (last && !run_dir_wait_gone(&s->dir, CLEANUP_S))
		output_error("%s is not gone after %d s; the next 'stagectl run' removes it",
			     s->dir.path, CLEANUP_S);
out:
	restore_signals(s);
	run_dir_close(&s->dir);
	fd_closep(&s->report_fd);
}

void run_session_explain(const struct run_session *s, struct error *err)
{
	struct pollfd p = { .fd = s->report_fd, .events = POLLIN };
	char text[512], *line;
	ssize_t n;

	if (s->report_fd < 0 || poll(&p, 1, 2000) <= 0)
		return;
	n = read(s->report_fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	error_exit(err, STAGE_EXIT_NO_STAGING, EPIPE, "stagingd has ended: %s",
		   line ? line + 1 : text);
}
