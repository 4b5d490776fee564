/*
 * One thread and poll(2): the socket to stagingd, signals, and the pipe that the children's
 * messages come through. No callback waits: what may take long happens at the end, or in a child
 * with a deadline.
 *
 * A child is reaped only after stagingd was told of its end, so a pid that stagingd knows can't be
 * somebody else's. poll() wakes up by itself while the job's memory is looked for and while
 * something is mounted; an idle keeper sleeps.
 */
#include "daemon/keeper/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "common/escape.h"
#include "common/fd.h"
#include "common/jobgroup.h"
#include "common/log.h"
#include "daemon/keeper/abort.h"
#include "daemon/keeper/jobmem.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/verbs.h"

#define MAX_CPUS 8192
#define MEMORY_WAIT_MS 5000
#define NO_SLURM_WAIT_MS 500 /* where no job seems to have a group */
#define MEMORY_TICK_MS 20
#define WATCH_TICK_MS 1000
#define STUCK_MS 2000	     /* a process that has been killed and is still there */
#define CANCEL_GRACE_MS 1000 /* for stagingd to release what it has */
#define VERBS_MS 100 /* at a time: all that stagingd says before it exits, and no flood; the user
		      * can make a tier's take long */

void serve_lose_daemon(struct serve *s, const char *why)
{
	const struct state *st = &s->k->st;

	if (s->sock < 0)
		return;
	log_error("stagingd %s: its writers end with it, mounts go on", why);
	close(steal_fd(&s->sock));
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid && s->children[i].class != KEEPER_CLASS_SERVER)
			kill(st->procs[i].pid, SIGKILL);
}

void serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds)
{
	int r = s->sock < 0 ? 0 : verbs_send(s->sock, msg, fds, n_fds);

	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		serve_lose_daemon(s, "does not listen");
}

pid_t serve_start(struct serve *s, const struct launch *l, uint32_t id, int class)
{
	_cleanup_(fd_closep) int go = -1;
	struct proc *p = state_find_proc(&s->k->st, 0);
	pid_t pid = p ? launch_start(l, &go) : -EAGAIN;
	int r;

	if (pid < 0)
		return pid;
	s->children[p - s->k->st.procs].id = id;
	s->children[p - s->k->st.procs].class = class;
	r = proc_get(pid, p) ?: state_write(s->k->dir.fd, &s->k->st);
	if (r == 0)
		r = fd_write_all(go, "g", 1);
	if (r == 0)
		return pid;
	p->pid = 0;
	return r;
}

static int start_daemon(struct serve *s)
{
	struct keeper *k = s->k;
	char job[16], dir[PATH_MAX];
	const char *argv[] = { "stagingd", "--keeper", "--job", job, "--rundir", dir,
			       k->conf_path ? "--conf" : NULL, k->conf_path, NULL };
	struct launch l = { .user = &k->user, .program = k->daemon_fd, .argv = argv,
			    .fds = { k->spec_fd, -1, k->listen_fd }, .n_fds = 3, .output = s->log_wr };
	_cleanup_(fd_closep) int theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->sock = pair[0];
	l.fds[1] = theirs = pair[1];
	snprintf(job, sizeof(job), "%u", k->st.job_id);
	r = rundir_path(dir, sizeof(dir), k->st.job_id, NULL);
	if (r >= 0)
		r = serve_start(s, &l, 0, SERVE_CLASS_DAEMON);
	close(steal_fd(&k->spec_fd));
	close(steal_fd(&k->listen_fd));
	return r < 0 ? r : 0;
}

void serve_repeat_in_job(struct keeper *k, const char *name)
{
	struct error err = ERROR_INIT;
	struct hand_path ns;
	int r = k->site.has_namespace ? keeper_find_path(k, HAND_NAMESPACE, &ns) : -ENOENT;

	if (r == 0 && mounts_repeat(k->dir.fd, name, ns.path, &err) < 0)
		log_warning("%s", err.text);
	else if (r < 0 && r != -ENOENT)
		log_warning("where JobNamespace leads is not known: %s", strerror(-r));
}

static void on_exit_of(struct serve *s, pid_t pid, int status)
{
	struct state *st = &s->k->st;
	struct proc *p = state_find_proc(st, pid);
	struct keeper_msg msg = { .verb = KEEPER_EXITED, .arg0 = status };
	const bool was_daemon = p && s->children[p - st->procs].class == SERVE_CLASS_DAEMON;

	if (pid == s->watch)
		s->watch = 0;
	if (p && !was_daemon) {
		msg.id = s->children[p - st->procs].id;
		serve_tell(s, &msg, NULL, 0);
	}
	waitpid(pid, NULL, 0);
	if (!p)
		return; /* the watch, or an orphan of a worker's */
	p->pid = 0;
	state_write(s->k->dir.fd, st);
	if (was_daemon && s->end_ms)
		s->ended = true;
	else if (was_daemon)
		serve_lose_daemon(s, "has died");
}

static void reap_children(struct serve *s)
{
	siginfo_t i = { 0 };

	while (waitid(P_ALL, 0, &i, WEXITED | WNOHANG | WNOWAIT) == 0 && i.si_pid) {
		on_exit_of(s, i.si_pid, i.si_code == CLD_EXITED ? W_EXITCODE(i.si_status, 0)
								: W_EXITCODE(0, i.si_status));
		i.si_pid = 0;
	}
}

static void on_signal(struct serve *s)
{
	const struct keeper_msg cancel = { .verb = KEEPER_CANCEL };
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD || s->end_ms)
			continue;
		s->end_ms = clock_ms() + CANCEL_GRACE_MS;
		s->ended = s->sock < 0;
		serve_tell(s, &cancel, NULL, 0);
	}
	reap_children(s);
}

static int join_memory(struct serve *s, const char *dir)
{
	struct state *st = &s->k->st;
	int r;

	if (snprintf(st->group, sizeof(st->group), "%s/" JOBMEM_GROUP, dir) >= PATH_MAX - 20)
		return -ENAMETOOLONG;
	r = mkdir(st->group, 0755) < 0 && errno != EEXIST ? -errno : 0;
	if (r < 0) {
		log_warning("make %s: %s: what is staged is not charged to the job", st->group, strerror(-r));
		st->group[0] = '\0';
	}
	return r;
}

static void look_for_memory(struct serve *s)
{
	const struct keeper *k = s->k;
	struct keeper_msg msg = { .verb = KEEPER_MEMORY, .arg0 = -1 };
	char dir[PATH_MAX];
	int r = jobgroup_find("memory", k->st.uid, k->st.job_id, dir, sizeof(dir));
	/* What the job before is about to give back counts as used until it has. */
	const bool freeing = jobdir_is_freeing();

	if ((r < 0 || freeing) &&
	    clock_ms() < s->begin_ms + (r == -ENODEV && !freeing ? NO_SLURM_WAIT_MS : MEMORY_WAIT_MS))
		return;
	if (r == 0)
		r = jobmem_read(dir, &msg.arg0, &msg.arg1);
	if (r == 0)
		r = join_memory(s, dir);
	if (r < 0)
		msg.arg0 = -1;
	if (msg.arg0 >= 0 && (uint64_t)msg.arg0 < k->memory_size &&
	    mounts_resize_memory(k->dir.fd, (uint64_t)msg.arg0) < 0)
		log_warning("the job's tmpfs can't be made as small as its memory");
	s->memory_known = true;
	serve_tell(s, &msg, NULL, 0);
}

static pid_t find_daemon(const struct serve *s)
{
	const struct proc *procs = s->k->st.procs;

	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (procs[i].pid && s->children[i].class == SERVE_CLASS_DAEMON)
			return procs[i].pid;
	return 0;
}

void serve_follow_cpus(struct serve *s)
{
	cpu_set_t ours[MAX_CPUS / CPU_SETSIZE] = { 0 }, theirs[MAX_CPUS / CPU_SETSIZE] = { 0 };
	const pid_t daemon = find_daemon(s);

	/* Once: the user may move stagingd later on, and shall not move us. */
	if (s->cpus_known || !daemon || sched_getaffinity(0, sizeof(ours), ours) < 0 ||
	    sched_getaffinity(daemon, sizeof(theirs), theirs) < 0 ||
	    CPU_EQUAL_S(sizeof(ours), ours, theirs))
		return;
	s->cpus_known = true;
	sched_setaffinity(0, sizeof(theirs), theirs);
}

/* Somebody has to see readers that hang, as long as something is mounted. The user may kill or stop
 * who does; it dies with us and makes nothing, so it is not on record. */
static void keep_watch(struct serve *s)
{
	_cleanup_(fd_closep) int control = -1, go = -1;
	const uint64_t cap = s->k->site.abort_after_ms;
	char limit[24];
	const struct hand h = { .argv = { "stage-hand", "watch", limit, NULL }, .uid = s->k->st.uid,
				.gid = s->k->st.gid, .dir = s->k->dir.fd };
	struct launch_user user;
	struct launch l;

	if (s->watch && proc_is_stopped(s->watch))
		kill(s->watch, SIGKILL);
	if (s->watch || s->end_ms || hand_prepare(&h, &l, &user) < 0)
		return;
	snprintf(limit, sizeof(limit), "%llu",
		 (unsigned long long)(cap < STUCK_MS ? cap : STUCK_MS));
	l.fds[0] = control = abort_open_control();
	l.output = s->log_wr;
	if (control < 0)
		return;
	s->watch = launch_start(&l, &go);
	if (s->watch < 0 || fd_write_all(go, "g", 1) < 0)
		s->watch = 0;
}

static bool is_mounted(const struct serve *s)
{
	return memchr(s->slots, 1, sizeof(s->slots));
}

/* Until the next look; -1: there is nothing to look at. */
static int get_tick(const struct serve *s)
{
	if (!s->memory_known || s->end_ms)
		return MEMORY_TICK_MS;
	return is_mounted(s) ? WATCH_TICK_MS : -1;
}

static void look_around(struct serve *s)
{
	if (get_tick(s) < 0 || clock_ms() < s->next_look_ms)
		return;
	serve_follow_cpus(s);
	if (!s->memory_known)
		look_for_memory(s);
	if (s->end_ms && clock_ms() >= s->end_ms)
		s->ended = true;
	if (is_mounted(s))
		keep_watch(s);
	s->next_look_ms = clock_ms() + (uint64_t)MEMORY_TICK_MS;
}

/* What the children say goes to the log file, a line at a time and escaped: with the file itself a
 * user could write lines in another job's name, or cut it to nothing. Nor shall he fill the disk. */
static void on_output(struct serve *s)
{
	char buf[2048], line[2048 * 4 + 1];
	ssize_t n = read(s->log_rd, buf, sizeof(buf));

	for (ssize_t i = 0; i < n && s->log_size < LOG_MAX_SIZE;) {
		const char *end = memchr(buf + i, '\n', (size_t)(n - i));
		size_t size = end ? (size_t)(end - buf - i) : (size_t)(n - i);

		text_escape(line, sizeof(line), buf + i, size);
		s->log_size += strlen(line);
		dprintf(s->k->log_fd, "job=%u user: %s\n", s->k->st.job_id, line);
		if (s->log_size >= LOG_MAX_SIZE)
			log_warning("what the job's processes say is too much: left out from now on");
		i += (ssize_t)size + 1;
	}
}

static int open_fds(struct serve *s)
{
	int pipefd[2] = { -1, -1 };
	sigset_t set;

	keeper_get_signals(&set);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0 || (s->k->log_fd >= 0 && pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0))
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
					{ s->log_rd, POLLIN, 0 } };

		if (poll(fds, ARRAY_SIZE(fds), get_tick(s)) < 0)
			continue;
		for (uint64_t until_ms = clock_ms() + VERBS_MS; fds[1].revents && s->sock >= 0 && serve_verb(s) &&
		     (clock_ms() < until_ms || clock_ms() < s->end_ms);)
			;
		if (fds[0].revents)
			on_signal(s);
		if (fds[2].revents)
			on_output(s);
		look_around(s);
	}
}

int keeper_serve(struct keeper *k, bool *job_overp)
{
	struct serve s = { .k = k, .sock = -1, .signal_fd = -1, .log_rd = -1, .log_wr = -1,
			   .begin_ms = clock_ms() };
	int r = open_fds(&s);

	if (r == 0)
		r = start_daemon(&s);
	if (r < 0)
		return r;
	if (k->in_step)
		serve_repeat_in_job(k, RUNDIR_MEMORY);
	loop(&s);
	fd_closep(&s.sock);
	*job_overp = s.end_ms;
	return 0;
}
