#include "daemon/manager/helper-run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/keeper-verbs.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/manager/state.h"

#define ACCOUNT_MS 60000 /* the name service may be slow */
#define CONF_MS 5000	 /* to read the configuration and look up names for a path */
#define POLL_US 1000
#define LOOK_MS 300 /* interval of checks whether a helper is stopped */
#define MAX_TRIES 3
#define ROOT_POLL_MS 20
#define AGAIN_MS 300 /* for retries if no process can be created; less than the plugin waits */
#define MANAGER_COMM "stage-manager" /* its name in /proc/<pid>/stat */

void helper_prepare(const struct helper *h, struct privops_spawn *s)
{
	*s = (struct privops_spawn){ .program = PRIVOP_PROGRAM_HELPER,
				     .argv = h->argv,
				     .uid = h->uid,
				     .gid = h->gid,
				     .fds = { -1, h->dir },
				     .n_fds = h->dir < 0 ? 1 : 2,
				     .output = -1,
				     .nice = h->nice,
				     .flags = PRIVOP_SPAWN_DIES |
					      (h->system ? PRIVOP_SPAWN_SYSTEM : 0) };
}

/* Kills a helper that its user has stopped. */
static void end_stopped(pid_t pid)
{
	if (privops_do_numbers(PRIVOP_LOOK, pid, 0, 0) > 0)
		(void)privops_do_numbers(PRIVOP_KILL, pid, 0, SIGKILL);
}

/* Reads the answer until size bytes, its end or the deadline, and closes fd. Returns the number of
 * bytes. */
static size_t read_answer(int fd, pid_t pid, void *answer, size_t size, uint64_t deadline_ms)
{
	size_t n = 0;

	while (n < size) {
		struct pollfd p = { fd, POLLIN, 0 };
		uint64_t now, left;
		ssize_t k;

		if (privops_meanwhile)
			privops_meanwhile();
		now = clock_ms();
		left = now < deadline_ms ? deadline_ms - now : 0;
		k = poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS);
		if (k == 0 && left > LOOK_MS) {
			end_stopped(pid);
			continue;
		}
		if (k > 0)
			k = read(fd, (char *)answer + n, size - n);
		if (k == 0 || (k < 0 && errno != EINTR))
			break;
		n += k < 0 ? 0 : (size_t)k;
	}
	close(fd); /* a helper that still writes gets EPIPE and does not wait for us */
	return n;
}

/* Starts the helper. *fdp: for its answer. Returns its pid or -errno. */
static pid_t start(const struct helper *h, int *fdp)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	struct privops_spawn s;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	rd = fds[0];
	helper_prepare(h, &s);
	s.fds[0] = wr = fds[1];
	pid = privops_spawn(&s, NULL);
	if (pid < 0)
		return pid;
	(void)privops_go(true); /* if this fails, the child ends */
	*fdp = steal_fd(&rd);
	return pid;
}

int helper_ask(const struct helper *h, void *answer, size_t size)
{
	int fd, r;
	const pid_t pid = start(h, &fd);
	size_t n;

	if (pid < 0)
		return pid;
	n = read_answer(fd, pid, answer, size, h->deadline_ms);
	r = privops_wait(pid, h->deadline_ms);
	if (r == 0 && n == size)
		return *(int32_t *)answer;
	if (r < -KEEPER_EXIT_EXEC) /* the program could not be started */
		return r + KEEPER_EXIT_EXEC;
	return r == -ETIMEDOUT || r == -EINTR ? r : -ENOEXEC;
}

int helper_do(const struct helper *h)
{
	int32_t answer;
	int r = -EINTR;

	for (int tries = 0; r == -EINTR && tries < MAX_TRIES; tries++)
		r = helper_ask(h, &answer, sizeof(answer));
	return r;
}

/* Asks the keeper for a fact that root looks up itself, until there is an answer. Events of the
 * keeper are read in between, because one of them reports that root's helper has ended. */
static int wait_for_root(const struct privop *question, uint64_t deadline_ms, bool stops, int *fdp)
{
	const uint64_t until_ms = clock_ms() + AGAIN_MS;

	for (;;) {
		struct pollfd p = { privops_get_fd(), POLLIN, 0 };
		struct privop a = *question;
		size_t n = fdp ? 1 : 0;
		int r = privops_do(&a, fdp, &n);

		if (r != -EINPROGRESS && (r != -EAGAIN || clock_ms() >= until_ms))
			return r >= 0 && fdp && !n ? -EPROTO : r;
		if (stops && privops_is_over())
			return -ECANCELED;
		if (clock_ms() >= deadline_ms)
			return -ETIMEDOUT;
		if (poll(&p, 1, ROOT_POLL_MS) > 0)
			privops_hear();
	}
}

int helper_get_site(struct helper_site *site, uint64_t timeout_ms)
{
	const struct privop question = { .kind = PRIVOP_SITE };
	_cleanup_(fd_closep) int fd = -1;
	int r = wait_for_root(&question, clock_ms() + timeout_ms, true, &fd);

	if (r >= 0)
		r = pread(fd, site, sizeof(*site), 0) == sizeof(*site) ? site->r : -EIO;
	site->log_file[sizeof(site->log_file) - 1] = site->text[sizeof(site->text) - 1] = '\0';
	site->metrics[sizeof(site->metrics) - 1] = '\0';
	return r;
}

int helper_open_log(const struct helper_site *site)
{
	static bool opened;
	static int r = -1;

	if (!opened && site->log_file[0]) {
		opened = true;
		r = privops_do_numbers(PRIVOP_OPEN_LOG, 0, 0, 0);
		if (r == 0)
			log_set_writer(privops_log);
	}
	return r;
}

void helper_get_site_and_log(struct helper_site *site)
{
	if (helper_get_site(site, CONF_MS) == 0)
		(void)helper_open_log(site);
}

int helper_find_path(const char *which, const struct helper_job *job, struct helper_path *path)
{
	char id[16], uid[16], gid[16];
	const struct helper h = { .argv = { "stage-helper", "path", "", which, id, uid, gid,
					    job->node ?: "", NULL },
				  .system = true,
				  .dir = -1,
				  .deadline_ms = clock_ms() + CONF_MS };
	int r;

	snprintf(id, sizeof(id), "%u", job->job_id);
	snprintf(uid, sizeof(uid), "%u", job->uid);
	snprintf(gid, sizeof(gid), "%u", job->gid);
	r = helper_ask(&h, path, sizeof(*path));
	if (r == 0 && (path->path[0] != '/' || !memchr(path->path, '\0', sizeof(path->path))))
		r = -EINVAL;
	return r;
}

int helper_open_tier(const char *path, int64_t which)
{
	struct privop question = { .kind = PRIVOP_OPEN_TIER, .n = { which } };
	int fd = -1, r;

	if (snprintf(question.text, sizeof(question.text), "%s", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = wait_for_root(&question, clock_ms() + CONF_MS, false, &fd);
	return r < 0 ? r : fd;
}

int helper_wait_user(bool *knownp)
{
	const struct privop question = { .kind = PRIVOP_USER };
	int r = wait_for_root(&question, clock_ms() + ACCOUNT_MS, true, NULL);

	*knownp = r > 0;
	return r < 0 ? r : 0;
}

int state_proc_signal(const struct state_proc *p, int sig)
{
	return p->start ? privops_do_numbers(PRIVOP_KILL, p->pid, (int64_t)p->start, sig) : -ESRCH;
}

bool state_proc_is_alive(const struct state_proc *p)
{
	struct privop a = { .kind = PRIVOP_LOOK, .n = { p->pid } };

	return privops_do(&a, NULL, NULL) >= 0 && (uint64_t)a.n[1] == p->start;
}

/* Returns true if the process is a stopped child of parent with the name comm. A name may contain
 * brackets, so the last bracket in the line ends it. */
static bool is_stopped_child(const char *pid, pid_t parent, const char *comm)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[NAME_MAX + 16], line[512], *name, *rest, state = 0;
	pid_t its = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	line[n < 0 ? 0 : n] = '\0';
	name = strchr(line, '(');
	rest = strrchr(line, ')');
	if (!name || !rest || sscanf(rest, ") %c %d", &state, &its) != 2 || its != parent)
		return false;
	*rest = '\0';
	return (state == 'T' || state == 't') && strcmp(name + 1, comm) == 0;
}

bool state_proc_is_stopped(const struct state_proc *p)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	struct privop a = { .kind = PRIVOP_LOOK, .n = { p->pid } };
	struct dirent *e;
	int r = p->pid > 1 ? privops_do(&a, NULL, NULL) : -ESRCH;

	if (r < 0 || (uint64_t)a.n[1] != p->start)
		return false;
	dir = r == 0 ? opendir("/proc") : NULL;
	while (r == 0 && dir && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			r = is_stopped_child(e->d_name, p->pid, MANAGER_COMM);
	return r > 0;
}

int helper_get_keeper(struct state_proc *p)
{
	struct privop a = { .kind = PRIVOP_LOOK, .n = { getppid() } };
	int r = privops_do(&a, NULL, NULL);

	if (r >= 0)
		*p = (struct state_proc){ (pid_t)a.n[0], (uint64_t)a.n[1] };
	return r < 0 ? r : 0;
}

void helper_end_all(uint64_t deadline_ms)
{
	while (privops_do_numbers(PRIVOP_KILL_CHILDREN, 0, 0, 0) > 0 && clock_ms() < deadline_ms)
		usleep(POLL_US);
}
