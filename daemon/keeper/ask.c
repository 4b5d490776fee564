/*
 * The keeper must know some facts from a source other than the manager, because root acts on them:
 * the groups of the job's user, and the paths of the site's log and metrics. A stage-helper that
 * runs as the system user looks them up, because this may ask the network or parse a configuration.
 * The answer is a struct of a fixed size. It comes through a pipe to whose other end the manager
 * never has a descriptor. No function here waits: the keeper's loop reads the answer when it has
 * arrived.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/keeper-helper.h"
#include "common/util/cleanup.h"

void ask_fill_system_user(const struct keeper *k, struct process_user *user)
{
	*user = (struct process_user){ k->system_uid,
				       k->system_gid,
				       &k->system_gid,
				       1,
				       { "PATH=/usr/bin:/bin", "LANG=C.UTF-8" } };
}

static int begin(struct keeper *k, struct ask *ask, const char *const *argv)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1, go = -1;
	struct process_user user;
	struct process l = { .user = &user,
			     .argv = argv,
			     .program = k->programs[PRIVOP_PROGRAM_HELPER],
			     .n_fds = 1,
			     .output = -1,
			     .dies_with_us = true };
	int fds[2];
	pid_t pid;

	if (ask->pid)
		return ask->r;
	if (l.program < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return l.program < 0 ? l.program : -errno;
	rd = fds[0];
	l.fds[0] = wr = fds[1];
	ask_fill_system_user(k, &user);
	pid = fcntl(rd, F_SETFL, O_NONBLOCK) < 0 ? -errno : process_start(&l, &go);
	if (pid < 0)
		return pid;
	*ask = (struct ask){ .fd = steal_fd(&rd), .pid = pid, .r = -EINPROGRESS };
	(void)!write(go, "g", 1); /* if this fails, the child ends, and the question has failed */
	return ask->r;
}

int ask_site(struct keeper *k)
{
	const char *argv[] = { "stage-helper", "site", k->conf ? k->conf : "", NULL };

	return begin(k, &k->site, argv);
}

int ask_user(struct keeper *k)
{
	char uid[16], gid[16];
	const char *argv[] = { "stage-helper", "account", uid, gid, NULL };

	snprintf(uid, sizeof(uid), "%u", k->uid);
	snprintf(gid, sizeof(gid), "%u", k->gid);
	return begin(k, &k->account, argv);
}

static struct helper_site site;
static struct helper_user account;
static struct helper_path tier;

int ask_tier(struct keeper *k, int64_t which, const char *path)
{
	char text[24], job[16], uid[16], gid[16];
	const char *argv[] = {
		"stage-helper",		"path", k->conf ? k->conf : "", text, job, uid, gid,
		k->node ? k->node : "", NULL
	};

	if (!k->uid || which < 0)
		return -ENOENT;
	if (k->path.pid && k->path.r == -EINPROGRESS)
		return -EINPROGRESS;
	if (k->path.pid && k->path_of == which) {
		k->path.pid = 0;
		if (k->path.r < 0 || tier.r < 0)
			return k->path.r ?: tier.r;
		return strncmp(path, tier.path, sizeof(tier.path)) == 0 ? 0 : -ENOENT;
	}
	snprintf(text, sizeof(text), "%lld", (long long)which);
	snprintf(job, sizeof(job), "%u", k->job);
	snprintf(uid, sizeof(uid), "%u", k->uid);
	snprintf(gid, sizeof(gid), "%u", k->gid);
	k->path_of = which;
	return begin(k, &k->path, argv) ?: -EINPROGRESS;
}

/* Reads what has arrived of an answer. One byte more than its size is read to detect an answer that
 * is too long. */
static void read_more(struct ask *ask, void *answer, size_t size)
{
	char more;
	struct iovec iov[] = { { (char *)answer + ask->n, size - ask->n }, { &more, 1 } };
	const ssize_t n = ask->fd < 0 ? -1 : readv(ask->fd, iov, 2);

	ask->n += n > 0 ? (size_t)n : 0;
	if (n == 0 || ask->n > size)
		fd_closep(&ask->fd);
}

void ask_read(struct keeper *k)
{
	read_more(&k->site, &site, sizeof(site));
	read_more(&k->account, &account, sizeof(account));
	read_more(&k->path, &tier, sizeof(tier));
}

static int judge(struct ask *ask, size_t size, int status)
{
	fd_closep(&ask->fd);
	if (WIFEXITED(status) && WEXITSTATUS(status) > PROCESS_EXIT_EXEC)
		return PROCESS_EXIT_EXEC - WEXITSTATUS(status);
	return status == 0 && ask->n == size ? 0 : -ENOEXEC;
}

/* Returns true if the text can become the value of an environment variable: it has no control
 * bytes. */
static bool is_value(const char *text, size_t size)
{
	size_t n = 0;

	while (n < size && (unsigned char)text[n] >= ' ' && text[n] != 0x7f)
		n++;
	return n > 0 && n < size && text[n] == '\0';
}

static int take_account(struct keeper *k)
{
	static char user[16 + HELPER_NAME_SIZE], logname[16 + HELPER_NAME_SIZE],
		home[16 + PATH_MAX];
	const char *name = account.name;
	char number[16];

	if (account.r < 0 || account.n_groups < 1 || account.n_groups > HELPER_MAX_GROUPS)
		return account.r < 0 ? account.r : -EPROTO;
	snprintf(number, sizeof(number), "%u", k->uid);
	if (!is_value(name, sizeof(account.name)))
		name = number;
	snprintf(user, sizeof(user), "USER=%s", name);
	snprintf(logname, sizeof(logname), "LOGNAME=%s", name);
	snprintf(home, sizeof(home), "HOME=%s",
		 account.home[0] == '/' && is_value(account.home, sizeof(account.home))
			 ? account.home
			 : "/");
	k->user = (struct process_user){ k->uid,
					 k->gid,
					 account.groups,
					 (int)account.n_groups,
					 { "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
					   home, user, logname } };
	return account.known;
}

/* A helper that has answered has ended, and its pid may belong to another child. */
static bool is_pending(const struct ask *ask, pid_t pid)
{
	return ask->pid == pid && ask->r == -EINPROGRESS;
}

bool ask_is_pending(const struct keeper *k, pid_t pid)
{
	return is_pending(&k->site, pid) || is_pending(&k->account, pid) ||
	       is_pending(&k->path, pid);
}

void ask_end(struct keeper *k, pid_t pid, int status)
{
	ask_read(k);
	if (is_pending(&k->site, pid))
		k->site.r = judge(&k->site, sizeof(site), status);
	else if (is_pending(&k->account, pid))
		k->account.r = judge(&k->account, sizeof(account), status) ?: take_account(k);
	else if (is_pending(&k->path, pid))
		k->path.r = judge(&k->path, sizeof(tier), status);
	site.log_file[sizeof(site.log_file) - 1] = '\0';
	site.metrics[sizeof(site.metrics) - 1] = '\0';
}

const struct helper_site *ask_get_site(const struct keeper *k)
{
	return k->site.pid && k->site.r == 0 ? &site : NULL;
}

int privop_user(struct keeper *k, struct call *c)
{
	return k->uid ? ask_user(k) : -EPERM;
}

/* The settings are sent in a memfd, because they do not fit in a packet. */
int privop_site(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = ask_site(k);

	if (r < 0)
		return r;
	for (size_t i = 0; i < PRIVOP_N_PROGRAMS; i++)
		site.programs[i] = k->programs[i] < 0 ? k->programs[i] : 0;
	fd = memfd_create("site", MFD_CLOEXEC);
	if (fd < 0 || write(fd, &site, sizeof(site)) != sizeof(site))
		return -EIO;
	return privop_give(c, steal_fd(&fd));
}
