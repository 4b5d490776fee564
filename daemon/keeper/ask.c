/*
 * The keeper must know some facts from a source other than the manager, because root acts on them:
 * the groups of the job's user, and the paths of the site's log and metrics. A stage-helper that
 * runs as the system user looks them up, because this may ask the network or parse a configuration.
 * The answer is a struct of a fixed size. The helper writes it to a file in memory of which the
 * manager never has a descriptor. No function here waits: root copies the answer, once, after the
 * helper has ended.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
	_cleanup_(fd_closep) int answer = -1, go = -1;
	struct process_user user;
	struct process l = { .user = &user,
			     .argv = argv,
			     .program = k->programs[PRIVOP_PROGRAM_HELPER],
			     .n_fds = 1,
			     .output = -1,
			     .max_file = PRIVOP_MAX_FILE,
			     .dies_with_us = true };
	pid_t pid;

	if (ask->pid)
		return ask->r;
	if (l.program < 0)
		return l.program;
	answer = l.fds[0] = memfd_create("answer", MFD_CLOEXEC);
	/* Attack: the manager, which has the helper's uid, opens the file by /proc. */
	if (answer < 0 || fchmod(answer, 0600) < 0)
		return -errno;
	ask_fill_system_user(k, &user);
	pid = process_start(&l, &go);
	if (pid < 0)
		return pid;
	*ask = (struct ask){ .fd = steal_fd(&answer), .pid = pid, .r = -EINPROGRESS };
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

static int take_answer(struct ask *ask, void *answer, size_t size, int status)
{
	_cleanup_(fd_closep) int fd = steal_fd(&ask->fd);

	if (WIFEXITED(status) && WEXITSTATUS(status) > PROCESS_EXIT_EXEC)
		return PROCESS_EXIT_EXEC - WEXITSTATUS(status);
	if (status != 0 || lseek(fd, 0, SEEK_END) != (off_t)size)
		return -ENOEXEC;
	return pread(fd, answer, size, 0) == (ssize_t)size ? 0 : -ENOEXEC;
}

static int take_account(struct keeper *k)
{
	static char user[16 + HELPER_NAME_SIZE], logname[16 + HELPER_NAME_SIZE],
		home[16 + PATH_MAX];

	if (account.r < 0 || account.n_groups < 1 || account.n_groups > HELPER_MAX_GROUPS)
		return account.r < 0 ? account.r : -EPROTO;
	account.name[sizeof(account.name) - 1] = '\0';
	account.home[sizeof(account.home) - 1] = '\0';
	snprintf(user, sizeof(user), "USER=%s", account.name);
	snprintf(logname, sizeof(logname), "LOGNAME=%s", account.name);
	snprintf(home, sizeof(home), "HOME=%s", account.home);
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
	if (is_pending(&k->site, pid))
		k->site.r = take_answer(&k->site, &site, sizeof(site), status);
	else if (is_pending(&k->account, pid))
		k->account.r = take_answer(&k->account, &account, sizeof(account), status)
				       ?: take_account(k);
	else if (is_pending(&k->path, pid))
		k->path.r = take_answer(&k->path, &tier, sizeof(tier), status);
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
