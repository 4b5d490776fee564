/*
 * One thread and poll(2): the sockets to stagingd and to the keeper, and the pipe that the
 * children's messages come through. No callback waits: work that may take long is done at the end,
 * or in a child with a deadline. The children are processes of the keeper, which signals a pid only
 * while it is a child. poll() has a timeout while the job's memory cgroup is not found yet, while
 * something is mounted, and while stagingd does not read descriptors; otherwise the process sleeps
 * until an event.
 */
#include "daemon/manager/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/escape.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/mounts.h"

#define MEMORY_TICK_MS 20
#define UNREAD_TICK_MS 5
#define CGROUPS_TICK_MS 1000
#define CANCEL_GRACE_MS 1000 /* for stagingd to release its datasets */
#define AGAIN_US 500000	     /* before stagingd is started again, if no process could be created */
#define VERBS_MS                                                                                   \
	100 /* for requests at a time: enough for all that stagingd sends before it exits, but a
	     * flood of requests must not stop the loop. A request about a tier can take long,
	     * because it runs as the user. */

static int start_daemon(struct serve *s)
{
	struct manager *k = s->k;
	struct privops_spawn spawn = { .program = PRIVOP_PROGRAM_DAEMON,
				       .fds = { k->spec_fd, -1, k->listen_fd },
				       .n_fds = 3,
				       .output = s->log_wr };
	_cleanup_(fd_closep) int theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->sock = pair[0];
	spawn.fds[1] = theirs = pair[1];
	r = serve_start(s, &spawn, 0, SERVE_CLASS_DAEMON);
	if (r == -EAGAIN) {
		usleep(AGAIN_US);
		r = serve_start(s, &spawn, 0, SERVE_CLASS_DAEMON);
	}
	close(steal_fd(&k->spec_fd));
	close(steal_fd(&k->listen_fd));
	return r < 0 ? r : 0;
}

static void on_exit_of(struct serve *s, pid_t pid, int status)
{
	struct state *st = &s->k->st;
	struct state_proc *p = state_find_proc(st, pid);
	struct keeper_msg msg = { .verb = KEEPER_EXITED, .arg0 = status };
	const bool was_daemon = p && s->children[p - st->procs].class == SERVE_CLASS_DAEMON;

	if (p && !was_daemon) {
		msg.id = s->children[p - st->procs].id;
		serve_tell(s, &msg, NULL, 0);
	}
	if (!p)
		return; /* an orphan that a worker has left */
	p->pid = 0;
	jobdir_write_state(&s->k->dir, st);
	if (was_daemon && s->end_ms)
		s->ended = true;
	else if (was_daemon)
		serve_lose_daemon(s, "has died");
}

/* Handles the events that the keeper has sent. */
static void on_keeper(struct serve *s)
{
	const struct keeper_msg cancel = { .verb = KEEPER_CANCEL };
	int status;
	pid_t pid;

	if (privops_is_over() && !s->end_ms) {
		s->end_ms = clock_ms() + CANCEL_GRACE_MS;
		s->ended = s->sock < 0;
		serve_tell(s, &cancel, NULL, 0);
	}
	while (privops_next_exit(&pid, &status))
		on_exit_of(s, pid, status);
}

static uint64_t get_slots(const struct serve *s)
{
	uint64_t slots = 0;

	for (unsigned slot = 0; slot < RUNDIR_MAX_SLOTS; slot++)
		slots |= (uint64_t)s->slots[slot] << slot;
	return slots;
}

static bool has_worker(const struct serve *s)
{
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (s->k->st.procs[i].pid && s->children[i].class != SERVE_CLASS_DAEMON)
			return true;
	return false;
}

int serve_get_tick(struct serve *s)
{
	if (serve_has_unread_fds(s))
		return UNREAD_TICK_MS;
	if (!s->memory_known || s->end_ms || cgroup_join_expects_more(s))
		return MEMORY_TICK_MS;
	if (get_slots(s))
		return fuse_watch_get_pause(&s->watch);
	/* The next job step may make the cgroups, and running workers must be moved to them. */
	return s->memory_is_late || (cgroup_join_is_incomplete(s) && has_worker(s))
		       ? CGROUPS_TICK_MS
		       : -1;
}

/* For look_meanwhile(), which has no parameter. */
static struct serve *serving;

static void look_meanwhile(void)
{
	fuse_watch_look(&serving->watch, get_slots(serving));
}

static void look_around(struct serve *s)
{
	fuse_watch_look(&s->watch, get_slots(s));
	if (serve_get_tick(s) < 0 || clock_ms() < s->next_look_ms)
		return;
	if (!s->memory_known || s->memory_is_late || cgroup_join_is_incomplete(s))
		serve_look_for_memory(s);
	if (s->end_ms && clock_ms() >= s->end_ms)
		s->ended = true;
	s->next_look_ms = clock_ms() + (uint64_t)MEMORY_TICK_MS;
}

/* The children's lines are escaped and written to the log one by one. A child with the log file
 * itself could write lines in another job's name, or truncate the file. The total size is limited,
 * so that a user cannot fill the disk. */
static void on_output(struct serve *s)
{
	char buf[1024], line[sizeof(buf) * 4 + 1], text[sizeof(line) + 32];
	ssize_t n = read(s->log_rd, buf, sizeof(buf));

	for (ssize_t i = 0; i < n && s->log_size < LOG_MAX_SIZE;) {
		const char *end = memchr(buf + i, '\n', (size_t)(n - i));
		size_t size = end ? (size_t)(end - buf - i) : (size_t)(n - i);

		text_escape(line, sizeof(line), buf + i, size);
		s->log_size += strlen(line);
		snprintf(text, sizeof(text), "job=%u user: %s\n", s->k->st.job_id, line);
		privops_log(text);
		if (s->log_size >= LOG_MAX_SIZE)
			log_warning("the job's processes log too much: their lines are left out "
				    "from now on");
		i += (ssize_t)size + 1;
	}
}

static int open_fds(struct serve *s)
{
	int pipefd[2] = { -1, -1 };

	if (s->k->log_r >= 0 && pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	s->log_rd = pipefd[0];
	s->log_wr = pipefd[1];
	return 0;
}

/* Performs the requests that stagingd has sent, for VERBS_MS. At the end of the job, the time is
 * longer, because only the requests before end_ms are performed at all. */
static void on_daemon(struct serve *s)
{
	const uint64_t until_ms = clock_ms() + VERBS_MS;

	while (s->sock >= 0 && serve_verb(s) && !serve_has_unread_fds(s) &&
	       (clock_ms() < until_ms || clock_ms() < s->end_ms))
		;
}

static void loop(struct serve *s)
{
	int tick;

	while (!s->ended) {
		struct pollfd fds[] = { { privops_get_fd(), POLLIN, 0 },
					{ s->sock, POLLIN, 0 },
					{ s->log_rd, POLLIN, 0 } };

		on_keeper(s); /* an event that came with an answer is already stored */
		tick = serve_get_tick(s);
		if (tick == UNREAD_TICK_MS)
			fds[1].events = 0;
		if (s->ended || poll(fds, ARRAY_SIZE(fds), tick) < 0)
			continue;
		if (fds[1].revents)
			on_daemon(s);
		if (fds[0].revents)
			privops_hear();
		if (fds[2].revents)
			on_output(s);
		look_around(s);
	}
}

int manager_serve(struct manager *k, bool *job_overp)
{
	struct serve s = { .k = k, .sock = -1, .log_rd = -1, .log_wr = -1, .begin_ms = clock_ms() };
	int r = open_fds(&s);

	fuse_watch_init(&s.watch, &k->dir, &k->st, k->site.abort_after_ms);
	if (r == 0)
		r = start_daemon(&s);
	if (r == 0) {
		serving = &s;
		privops_meanwhile = look_meanwhile;
		if (k->in_step)
			serve_repeat_in_job(k, MOUNTS_MEMORY);
		/* stagingd waits for the job's memory and reports nothing before */
		look_around(&s);
		loop(&s);
		privops_meanwhile = NULL;
		*job_overp = s.end_ms;
	}
	fuse_watch_deinit(&s.watch);
	fd_closep(&s.sock);
	fd_closep(&s.log_rd);
	fd_closep(&s.log_wr);
	return r;
}
