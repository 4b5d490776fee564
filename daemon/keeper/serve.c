/*
 * One thread and poll(2): the socket to stagingd, signals, a timer, and the pipe that the
 * children's messages come through. No callback waits: what may take long happens at the end,
 * or in a child with a deadline.
 *
 * A child is reaped only after stagingd was told of its end, so a pid that stagingd knows can't be
 * somebody else's. The timer runs while the job's memory is looked for and while something is
 * mounted; an idle keeper sleeps.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/parse.h"
#include "daemon/keeper/abort.h"
#include "daemon/keeper/jobmem.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/serve.h"
#include "daemon/keeper/verbs.h"

#define MEMORY_WAIT_MS 5000
#define MEMORY_TICK_MS 100
#define WATCH_TICK_MS 1000
#define STUCK_MS 2000       /* a process that has been killed and is still there */
#define CANCEL_GRACE_MS 1000 /* for stagingd to release what it has */

void serve_set_timer(struct serve *s)
{
	unsigned ms = !s->memory_known || s->end_ms ? MEMORY_TICK_MS : 0;
	struct itimerspec its = { 0 };

	for (size_t i = 0; !ms && i < RUNDIR_MAX_SLOTS; i++)
		if (s->slots[i])
			ms = WATCH_TICK_MS;
	its.it_value.tv_sec = its.it_interval.tv_sec = ms / 1000;
	its.it_value.tv_nsec = its.it_interval.tv_nsec = ms % 1000 * 1000000L;
	timerfd_settime(s->timer_fd, 0, &its, NULL);
}

void serve_lose_daemon(struct serve *s, const char *why)
{
	if (s->sock < 0)
		return;
	log_error("stagingd %s: its writers end with it, mounts go on", why);
	fd_closep(&s->sock);
	s->sock = -1;
	if (s->daemon)
		kill(s->daemon, SIGKILL);
	for (size_t i = 0; i < SERVE_MAX_WORKERS; i++)
		if (s->workers[i].pid && s->workers[i].class == KEEPER_CLASS_WRITER)
			kill(s->workers[i].pid, SIGKILL);
}

void serve_tell(struct serve *s, uint32_t verb, uint32_t id, int64_t arg0, int64_t arg1)
{
	const struct keeper_msg msg = { verb, id, arg0, arg1 };
	int r = s->sock < 0 ? 0 : verbs_send(s->sock, &msg, NULL, 0);

	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		serve_lose_daemon(s, "does not listen");
}

int serve_start(struct serve *s, const struct launch *l, pid_t *pidp)
{
	_cleanup_(fd_closep) int go = -1;
	pid_t pid = launch_start(l, &go);
	struct proc *p = state_find_proc(&s->k->st, 0);
	int r;

	if (pid < 0)
		return pid;
	r = p ? proc_get(pid, p) : -EAGAIN;
	if (r == 0)
		r = state_write(s->k->dir.fd, &s->k->st);
	if (r == 0)
		r = fd_write_all(go, "g", 1);
	if (r == 0)
		*pidp = pid;
	else if (p)
		p->pid = 0;
	return r;
}

static int start_daemon(struct serve *s)
{
	struct keeper *k = s->k;
	char job[16], dir[PATH_MAX];
	const char *argv[] = { "stagingd", "--keeper", "--job", job, "--rundir", dir,
			       k->conf_path ? "--conf" : NULL, k->conf_path, NULL };
	struct launch l = { .user = &k->user, .program = k->daemon_fd, .argv = argv, .n_fds = 3,
			    .output = s->log_wr };
	_cleanup_(fd_closep) int theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->sock = pair[0];
	theirs = pair[1];
	snprintf(job, sizeof(job), "%u", k->job_id);
	r = rundir_path(dir, sizeof(dir), k->job_id, NULL);
	if (r < 0)
		return r;
	l.fds[KEEPER_FD_SPEC - 3] = k->spec_fd;
	l.fds[KEEPER_FD_SOCKET - 3] = theirs;
	l.fds[KEEPER_FD_LISTEN - 3] = k->listen_fd;
	r = serve_start(s, &l, &s->daemon);
	fd_closep(&k->spec_fd);
	fd_closep(&k->listen_fd);
	k->spec_fd = k->listen_fd = -1;
	return r;
}

void serve_repeat_in_job(struct keeper *k, const char *name)
{
	struct error err = ERROR_INIT;
	char ns[PATH_MAX];

	if (strcmp(k->conf->job_namespace, "none") == 0 || !k->conf->job_namespace[0])
		return;
	if (keeper_expand(k, k->conf->job_namespace, ns, &err) < 0 ||
	    mounts_repeat(k->dir.fd, name, ns, &err) < 0)
		log_warning("%s", err.text);
}

static void on_exit_of(struct serve *s, const siginfo_t *info)
{
	struct keeper_msg msg = { .verb = KEEPER_EXITED };
	struct worker *w = NULL;
	struct proc *p;
	int status;

	for (size_t i = 0; i < SERVE_MAX_WORKERS && !w; i++)
		if (s->workers[i].pid == info->si_pid)
			w = &s->workers[i];
	msg.arg0 = info->si_code == CLD_EXITED ? W_EXITCODE(info->si_status, 0)
					       : W_EXITCODE(0, info->si_status);
	if (w) {
		serve_tell(s, KEEPER_EXITED, w->id, msg.arg0, 0);
		w->pid = 0;
	}
	waitpid(info->si_pid, &status, 0);
	p = state_find_proc(&s->k->st, info->si_pid);
	if (p)
		p->pid = 0;
	state_write(s->k->dir.fd, &s->k->st);
	if (info->si_pid != s->daemon)
		return;
	s->daemon = 0;
	if (s->end_ms)
		s->ended = true;
	else
		serve_lose_daemon(s, "has died");
}

static void reap_children(struct serve *s)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
		on_exit_of(s, &info);
		info.si_pid = 0;
	}
}

static void on_signal(struct serve *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD || s->end_ms)
			continue;
		s->job_over = true;
		s->end_ms = clock_ms() + CANCEL_GRACE_MS;
		if (s->sock < 0)
			s->ended = true;
		serve_tell(s, KEEPER_CANCEL, 0, 0, 0);
		serve_set_timer(s);
	}
	reap_children(s);
}

static int join_memory(struct serve *s, const char *dir)
{
	struct keeper *k = s->k;
	struct error err = ERROR_INIT;
	int r;

	if (snprintf(k->st.cgroup, sizeof(k->st.cgroup), "%s/%s", dir, JOBMEM_GROUP) >=
	    (int)sizeof(k->st.cgroup))
		return -ENAMETOOLONG;
	r = state_write(k->dir.fd, &k->st);
	if (r == 0)
		r = jobmem_make_group(k->st.cgroup, &err);
	if (r < 0) {
		log_warning("%s: what is staged is not charged to the job", err.text);
		k->st.cgroup[0] = '\0';
		return r;
	}
	snprintf(s->memory_group, sizeof(s->memory_group), "%.*s/cgroup.procs", PATH_MAX - 20,
		 k->st.cgroup);
	return 0;
}

static void look_for_memory(struct serve *s)
{
	struct keeper *k = s->k;
	int64_t limit = -1, used = 0;
	char dir[PATH_MAX];
	int r = jobmem_find("memory", k->uid, k->job_id, dir, sizeof(dir));

	if (r < 0 && clock_ms() < s->memory_deadline_ms)
		return;
	if (r == 0)
		r = jobmem_read(dir, &limit, &used);
	if (r == 0)
		r = join_memory(s, dir);
	if (r < 0)
		limit = -1;
	if (limit >= 0 && (uint64_t)limit < k->memory_size &&
	    mounts_resize_memory(k->dir.fd, (uint64_t)limit) < 0)
		log_warning("the job's tmpfs can't be made as small as its memory");
	s->memory_known = true;
	serve_tell(s, KEEPER_MEMORY, 0, limit, used);
	serve_set_timer(s);
}

static void on_timer(struct serve *s)
{
	uint64_t n;
	uint64_t cap = s->k->conf->abort_after_ms;

	if (read(s->timer_fd, &n, sizeof(n)) < 0)
		return;
	if (!s->memory_known)
		look_for_memory(s);
	if (s->end_ms && clock_ms() >= s->end_ms)
		s->ended = true;
	abort_look(&s->watch, s->k->dir.fd, s->slots, s->k->uid, cap < STUCK_MS ? cap : STUCK_MS);
}

/* What the children say goes to the log file, a line at a time and escaped: with the file itself a
 * user could write lines in another job's name, or cut it to nothing. */
static void on_output(struct serve *s)
{
	char buf[2048], line[2048 * 4 + 1];
	ssize_t n = read(s->log_rd, buf, sizeof(buf));

	for (ssize_t i = 0; i < n;) {
		const char *end = memchr(buf + i, '\n', (size_t)(n - i));
		size_t size = end ? (size_t)(end - buf - i) : (size_t)(n - i);

		text_escape(line, sizeof(line), buf + i, size);
		dprintf(s->k->log_fd, "job=%u user: %s\n", s->k->job_id, line);
		i += (ssize_t)size + 1;
	}
}

static int open_fds(struct serve *s)
{
	sigset_t set;
	int pipefd[2];

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->signal_fd < 0 || s->timer_fd < 0)
		return -errno;
	if (s->k->log_fd < 0)
		return 0;
	if (pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	s->log_rd = pipefd[0];
	s->log_wr = pipefd[1];
	return 0;
}

static void loop(struct serve *s)
{
	reap_children(s); /* one may have ended before SIGCHLD was listened for */
	while (!s->ended) {
		struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 },
					{ s->sock, POLLIN, 0 },
					{ s->timer_fd, POLLIN, 0 },
					{ s->log_rd, POLLIN, 0 } };

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue;
		if (fds[1].revents && s->sock >= 0)
			serve_verb(s);
		if (fds[0].revents)
			on_signal(s);
		if (fds[2].revents)
			on_timer(s);
		if (fds[3].revents)
			on_output(s);
	}
}

int keeper_serve(struct keeper *k, bool *job_overp)
{
	struct serve s = { .k = k, .sock = -1, .signal_fd = -1, .timer_fd = -1, .log_rd = -1,
			   .log_wr = -1, .memory_deadline_ms = clock_ms() + MEMORY_WAIT_MS };
	int r = open_fds(&s);

	if (r == 0)
		r = start_daemon(&s);
	if (r < 0)
		return r;
	if (k->in_step)
		serve_repeat_in_job(k, RUNDIR_MEMORY);
	serve_set_timer(&s);
	loop(&s);
	fd_closep(&s.sock);
	*job_overp = s.job_over;
	return 0;
}
