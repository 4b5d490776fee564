#include "client/keep-list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/output.h"
#include "client/table.h"
#include "common/config/conf.h"
#include "common/keep/keep.h"
#include "common/protocol/tier-name.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/parse.h"

#define READ_MS 5000
#define MAX_SIZE (256 * 1024) /* of the output for one user in one tier */

struct listing {
	struct keep keep;
	struct table *table; /* NULL: print lines of words */
	int n;
};

static uint64_t get_age(const struct keep_entry *e)
{
	const uint64_t now = clock_ms();

	return now > e->used_ms ? now - e->used_ms : 0;
}

static int print_words(const struct listing *l, const char *name, const struct keep_entry *e,
		       bool used)
{
	printf("kept=%.12s uid=%u bytes=%llu age=%llu keep=%llu used=%d source=", name, geteuid(),
	       (unsigned long long)kv_get_u64(e->record, KEEP_BYTES, 0),
	       (unsigned long long)(used ? 0 : get_age(e) / 1000),
	       (unsigned long long)kv_get_u64(e->record, KEEP_MS, 0) / 1000, used);
	output_line(stdout, kv_get_or_empty(e->record, KEEP_SOURCE));
	return 0;
}

static int print_row(const struct listing *l, const struct keep_entry *e, bool used)
{
	char size[PARSE_SIZE_TEXT], age[PARSE_DURATION_TEXT], keep[PARSE_DURATION_TEXT];

	return table_add_row(l->table,
			     (const char *[]){
				     kv_get_or_empty(e->record, KEEP_SOURCE),
				     size_to_string(kv_get_u64(e->record, KEEP_BYTES, 0), size),
				     used ? "in use" : duration_to_string(get_age(e), age),
				     duration_to_string(kv_get_u64(e->record, KEEP_MS, 0), keep),
			     });
}

static int print_entry(void *arg, const char *name, const struct keep_entry *e)
{
	struct listing *l = arg;
	const bool used = keep_entry_is_used(&l->keep, e);

	l->n++;
	return l->table ? print_row(l, e, used) : print_words(l, name, e, used);
}

/* Prints the entries of a tier. Returns their number; 0 if the directory does not exist. */
static int print_tier(const char *path, struct table *table)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct listing l = { KEEP_INIT, table, 0 };
	int r = fd < 0 ? -errno : keep_open(&l.keep, fd);

	if (r == 0)
		r = keep_for_each(&l.keep, print_entry, &l);
	keep_close(&l.keep);
	return r < 0 && r != -ENOENT ? r : l.n;
}

static bool keeps(const struct conf_tier *t)
{
	return t->kind != CONF_TIER_SHARED && *t->path && !strchr(t->path, '%');
}

int keep_list_print(const struct conf *conf, struct error *err)
{
	static const struct table_column columns[] = {
		{ "SOURCE" }, { "SIZE", true }, { "UNUSED", true }, { "KEEP", true }
	};
	_cleanup_(table_freep) struct table *t = NULL;
	int r = table_new(&t, columns, ARRAY_SIZE(columns)), n = 0;

	if (r < 0)
		return error_errno(err, -r, "table");
	for (size_t i = 0; i < conf->n_tiers; i++) {
		if (!keeps(&conf->tiers[i]))
			continue;
		r = print_tier(conf->tiers[i].path, t);
		if (r < 0)
			return error_errno(err, -r, "read what is kept in %s", conf->tiers[i].path);
		n += r;
	}
	table_print(t, stdout);
	return n;
}

/* Runs in a child of root: becomes the user and prints. Closes the caller's descriptors, because
 * somebody may wait for their end. */
static _Noreturn void print_as_user(const char *path, uid_t uid, gid_t gid, int out)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 ||
	    setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0 || geteuid() == 0)
		_exit(1);
	(void)print_tier(path, NULL);
	fflush(stdout);
	_exit(0);
}

/* Copies lines until end of file, the deadline or MAX_SIZE. Returns the number of bytes. */
static size_t copy_lines(int fd)
{
	const uint64_t deadline_ms = clock_ms() + READ_MS;
	char buf[4096];
	size_t size = 0;

	while (size < MAX_SIZE) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		const uint64_t now = clock_ms();
		ssize_t n = now < deadline_ms ? poll(&p, 1, (int)(deadline_ms - now)) : 0;

		if (n > 0)
			n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			break;
		size += fwrite(buf, 1, (size_t)n, stdout);
	}
	return size;
}

/* Reads a user's directory as the user, because the user can forge its content. The user may also
 * stop this process, or mount a file system that never answers. Then even SIGKILL may not end it,
 * and it is not waited for. Returns whether there is anything. */
static bool print_users(const char *path, uid_t uid, gid_t gid)
{
	size_t size = 0;
	int fds[2];
	pid_t pid;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		print_as_user(path, uid, gid, fds[1]);
	close(fds[1]);
	if (pid > 0) {
		size = copy_lines(fds[0]);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, WNOHANG);
	}
	close(fds[0]);
	return size > 0;
}

/* Checks the owner, because anyone can make any name in a directory that is open to all. */
static bool print_one(const char *path, int dirfd, const char *name)
{
	char own[TIER_NAME_SIZE];
	struct statx st;

	if (strncmp(name, TIER_NAME_KEEP, strlen(TIER_NAME_KEEP)) != 0)
		return false;
	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) <
	    0) {
		if (errno != ENOENT) /* the user has mounted a file system on it */
			output_error("%s/%s: %s", path, name, strerror(errno));
		return false;
	}
	snprintf(own, sizeof(own), TIER_NAME_KEEP "%u", st.stx_uid);
	return S_ISDIR(st.stx_mode) && st.stx_uid != 0 && strcmp(name, own) == 0 &&
	       print_users(path, st.stx_uid, st.stx_gid);
}

bool keep_list_print_all(const struct conf *conf)
{
	bool any = false;

	for (size_t i = 0; i < conf->n_tiers; i++) {
		const char *path = conf->tiers[i].path;
		_cleanup_(dir_closep) DIR *dir = keeps(&conf->tiers[i]) ? opendir(path) : NULL;
		struct dirent *e;

		while (dir && (e = readdir(dir)))
			any |= print_one(path, dirfd(dir), e->d_name);
	}
	return any;
}
