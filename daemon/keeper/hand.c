#include "daemon/keeper/hand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/proc.h"

#include "stage-build.h"

#define ACCOUNT_MS 60000 /* the name service may be slow */
#define CONF_MS 5000 /* to read the configuration, and to ask for a name in a path */
#define LOOK_MS 300 /* whether a hand was stopped */
#define MAX_TRIES 3

int hand_prepare(const struct hand *h, struct launch *l, struct launch_user *u)
{
	static int program = -1; /* one version as long as we live */
	struct error err = ERROR_INIT;

	if (program < 0)
		program = launch_open_program(STAGE_LIBEXEC_DIR "/stage-hand", &err);
	if (program < 0)
		log_error("%s", err.text);
	*u = (struct launch_user){ .uid = h->uid, .gid = h->gid, .n_groups = 1,
				   .env = { "PATH=/usr/bin:/bin", "LANG=C.UTF-8" } };
	u->groups = &u->gid;
	*l = (struct launch){ .user = u, .program = program, .argv = h->argv,
			      .fds = { -1, h->dir }, .n_fds = h->dir < 0 ? 1 : 2,
			      .output = -1, .nice = h->nice, .dies_with_us = true };
	return program < 0 ? program : 0;
}

/* All of size bytes, or less at the end or the deadline, which is now when stop_fd can be read. A hand
 * that its user has stopped is killed. Closes fd. */
static size_t read_answer(int fd, pid_t pid, void *answer, size_t size, int stop_fd, uint64_t *deadline_msp)
{
	size_t n = 0;

	while (n < size) {
		struct pollfd p[] = { { fd, POLLIN, 0 }, { stop_fd ?: -1, POLLIN, 0 } };
		const uint64_t now = clock_ms(), left = now < *deadline_msp ? *deadline_msp - now : 0;
		ssize_t k = poll(p, 2, left < LOOK_MS ? (int)left : LOOK_MS);

		if (k == 0 && left > LOOK_MS) {
			if (proc_is_stopped(pid))
				kill(pid, SIGKILL);
			continue;
		}
		if (k > 0)
			k = p[1].revents ? (ssize_t)(*deadline_msp = 0)
					 : read(fd, (char *)answer + n, size - n);
		if (k == 0 || (k < 0 && errno != EINTR))
			break;
		n += k < 0 ? 0 : (size_t)k;
	}
	close(fd); /* who has more to say shall not wait for us */
	return n;
}

int hand_ask(const struct hand *h, void *answer, size_t size)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1, go = -1;
	struct launch_user user;
	struct launch l;
	int fds[2], r = hand_prepare(h, &l, &user);
	uint64_t deadline_ms = h->deadline_ms;
	size_t n;
	pid_t pid;

	if (r < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return r < 0 ? r : -errno;
	rd = fds[0];
	l.fds[0] = wr = fds[1];
	pid = launch_start(&l, &go);
	if (pid < 0)
		return pid;
	close(steal_fd(&wr));
	(void)fd_write_all(go, "g", 1);
	close(steal_fd(&go)); /* where that could not be written, the child ends by this */
	n = read_answer(steal_fd(&rd), pid, answer, size, h->stop_fd, &deadline_ms);
	r = proc_wait(pid, deadline_ms);
	if (r == 0 && n == size)
		return *(int32_t *)answer;
	return !deadline_ms			? -ECANCELED
	       : r < -LAUNCH_EXIT_EXEC		? r + LAUNCH_EXIT_EXEC
	       : r == -ETIMEDOUT || r == -EINTR ? r : -ENOEXEC;
}

int hand_do(const struct hand *h)
{
	int32_t answer;
	int r = -EINTR;

	for (int tries = 0; r == -EINTR && tries < MAX_TRIES; tries++)
		r = hand_ask(h, &answer, sizeof(answer));
	return r;
}

int hand_get_site(const char *conf, struct hand_site *site)
{
	const struct hand h = { .argv = { "stage-hand", "site", conf ?: "", NULL },
				.uid = HAND_UID, .gid = HAND_UID, .dir = -1,
				.deadline_ms = clock_ms() + CONF_MS };
	int r = hand_ask(&h, site, sizeof(*site));

	site->log_file[sizeof(site->log_file) - 1] = site->text[sizeof(site->text) - 1] = '\0';
	site->metrics[sizeof(site->metrics) - 1] = '\0';
	return r;
}

int hand_find_path(const char *conf, const char *which, const struct hand_job *job,
		   struct hand_path *path)
{
	char id[16], uid[16], gid[16];
	const struct hand h = { .argv = { "stage-hand", "path", conf ?: "", which, id, uid, gid,
					  job->node ?: "", NULL },
				.uid = HAND_UID, .gid = HAND_UID, .dir = -1,
				.deadline_ms = clock_ms() + CONF_MS };
	int r;

	snprintf(id, sizeof(id), "%u", job->job_id);
	snprintf(uid, sizeof(uid), "%u", job->uid);
	snprintf(gid, sizeof(gid), "%u", job->gid);
	r = hand_ask(&h, path, sizeof(*path));
	if (r == 0 && (path->path[0] != '/' || !memchr(path->path, '\0', sizeof(path->path))))
		r = -EINVAL;
	return r;
}

int hand_get_account(struct launch_user *u, bool *knownp)
{
	static struct hand_account a;
	_cleanup_(fd_closep) int stop_fd = -1;
	char uid[16], gid[16];
	struct hand h = { .argv = { "stage-hand", "account", uid, gid, NULL },
			  .uid = HAND_UID, .gid = HAND_UID, .dir = -1,
			  .deadline_ms = clock_ms() + ACCOUNT_MS };
	sigset_t set;
	int r;

	keeper_get_signals(&set);
	sigdelset(&set, SIGCHLD);
	h.stop_fd = stop_fd = signalfd(-1, &set, SFD_CLOEXEC);
	snprintf(uid, sizeof(uid), "%u", u->uid);
	snprintf(gid, sizeof(gid), "%u", u->gid);
	r = hand_ask(&h, &a, sizeof(a));
	if (r < 0 || a.n_groups < 1 || a.n_groups > HAND_MAX_GROUPS)
		return r < 0 ? r : -EPROTO;
	a.env[sizeof(a.env) - 2] = a.env[sizeof(a.env) - 1] = '\0';
	u->groups = a.groups;
	u->n_groups = (int)a.n_groups;
	u->env[0] = a.env;
	for (size_t i = 1; i < ARRAY_SIZE(u->env) - 1 && *u->env[i - 1]; i++)
		u->env[i] = u->env[i - 1] + strlen(u->env[i - 1]) + 1;
	for (size_t i = 0; i < ARRAY_SIZE(u->env); i++)
		u->env[i] = u->env[i] && *u->env[i] ? u->env[i] : NULL;
	*knownp = a.known;
	return 0;
}
