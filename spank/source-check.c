#include "spank/source-check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/dataset/dataset.h"
#include "common/dataset/expand.h"
#include "common/util/fd.h"
#include "common/util/path.h"

/* The child writes a record of fixed size when it begins an item, and another one with the result.
 * So the parent knows which item hangs. A child that hangs in the kernel cannot be killed at once:
 * init adopts it, and it ends when the file system responds again. */
#define BEGUN (-1)

struct record {
	uint32_t index;
	uint32_t n_fault; /* length of the faulty part of the path */
	int32_t errnum;	  /* BEGUN, 0, an errno or SOURCE_CHECK_* */
	uint64_t bytes;
};

void source_check_path(const struct dataset *d, char *buf, size_t size)
{
	char *p, *slash = buf;

	buf[0] = '\0';
	if (d->scheme != DATASET_SCHEME_FILE && d->scheme != DATASET_SCHEME_LIST)
		return;
	if (snprintf(buf, size, "%s", d->source) >= (int)size || buf[0] != '/') {
		buf[0] = '\0';
		return;
	}
	if (d->scheme == DATASET_SCHEME_LIST || !d->is_set)
		return;
	for (p = buf; *p && !strchr("*?[{", *p); p++)
		if (*p == '/')
			slash = p;
	slash[slash == buf] = '\0'; /* keep "/" itself */
}

/* Returns the size without holes. On a compressing file system, the saved space is not counted
 * either. */
static uint64_t get_bytes(const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_size, used = (uint64_t)st->st_blocks * 512;

	return used < bytes ? used : bytes;
}

static int source_check_look(const char *path, uint64_t *bytesp)
{
	struct stat st;

	if (stat(path, &st) < 0 && errno == ENOENT && lstat(path, &st) == 0)
		return ENOLINK; /* printed as "a link to what is not there" */
	if (stat(path, &st) < 0)
		return errno;
	if (S_ISREG(st.st_mode))
		*bytesp = get_bytes(&st);
	if (S_ISDIR(st.st_mode))
		return access(path, R_OK | X_OK) < 0 ? errno : 0;
	if (!S_ISREG(st.st_mode))
		return EMEDIUMTYPE; /* printed as "neither a file nor a directory" */
	return access(path, R_OK) < 0 ? errno : 0;
}

/* Returns the length of the path up to the first directory that is missing or cannot be entered; if
 * there is none, the whole length. */
static uint32_t find_fault(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		bool passes;

		*slash = '\0';
		passes = access(path, X_OK) == 0;
		*slash = '/';
		if (!passes)
			return (uint32_t)(slash - path);
	}
	return (uint32_t)strlen(path);
}

/* Looks for a file that matches. Braces may make very many names, so only the first and the last
 * name are checked. */
static int look_for_fit(const char *pattern)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	int found = expand_find_name(pattern);

	if (found)
		return found == 1 ? SOURCE_CHECK_IS_NAME : SOURCE_CHECK_IS_NAME_OF_MANY;
	if (expand_pattern(pattern, &names, NULL) < 0)
		return 0; /* the node will report the error */
	if (names.n == 0)
		return SOURCE_CHECK_FITS_NONE;
	if (access(names.v[0], F_OK) < 0 && errno == ENOENT)
		return SOURCE_CHECK_END_MISSING;
	return access(names.v[names.n - 1], F_OK) < 0 && errno == ENOENT ? SOURCE_CHECK_END_MISSING
									 : 0;
}

static bool is_pattern(const struct dataset *d)
{
	return d->scheme == DATASET_SCHEME_FILE && d->is_set;
}

static void child_main(const struct dataset_list *list, int fd)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < list->n_items; i++) {
		struct record r = { .index = (uint32_t)i, .errnum = BEGUN };

		source_check_path(&list->items[i], path, sizeof(path));
		if (!path[0])
			continue;
		if (fd_write_all(fd, &r, sizeof(r)) < 0)
			_exit(1);
		r.errnum = source_check_look(path, &r.bytes);
		if (r.errnum)
			r.n_fault = find_fault(path);
		else if (is_pattern(&list->items[i]))
			r.errnum = look_for_fit(list->items[i].source);
		if (fd_write_all(fd, &r, sizeof(r)) < 0)
			_exit(1);
	}
	_exit(0);
}

/* Reads a record. Returns 1; 0 at the end; -ETIMEDOUT; -errno. A record is shorter than PIPE_BUF,
 * so it is never split. */
static int next_record(int fd, uint64_t deadline_ms, struct record *r)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	uint64_t now;
	ssize_t n;
	int k;

	do {
		now = clock_ms();
		k = poll(&pfd, 1, now < deadline_ms ? (int)(deadline_ms - now) : 0);
	} while (k < 0 && errno == EINTR);
	if (k < 0)
		return -errno;
	if (k == 0)
		return -ETIMEDOUT;
	n = read(fd, r, sizeof(*r));
	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	return n == sizeof(*r) ? 1 : -EIO;
}

static void end_child(pid_t pid, int r)
{
	if (r != 0)
		kill(pid, SIGKILL);
	for (int i = 0; i < 20; i++) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		usleep(5000);
	}
}

static int watch(const struct dataset_list *list, int fd, unsigned limit_ms, size_t *indexp,
		 source_check_report report, void *arg)
{
	uint64_t deadline_ms = clock_ms() + limit_ms;
	char path[PATH_MAX];
	struct record rec;
	int r;

	while ((r = next_record(fd, deadline_ms, &rec)) == 1) {
		*indexp = rec.index;
		if (rec.errnum == BEGUN || rec.index >= list->n_items)
			continue;
		source_check_path(&list->items[rec.index], path, sizeof(path));
		report(arg, &(struct source_check_result){ rec.index, path, rec.n_fault, rec.errnum,
							   rec.bytes });
	}
	return r;
}

int source_check(const struct dataset_list *list, unsigned limit_ms, size_t *indexp,
		 source_check_report report, void *arg)
{
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	int fds[2], r;
	pid_t pid;

	*indexp = 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	rd = fds[0];
	wr = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		child_main(list, wr);
	close(steal_fd(&wr));
	r = watch(list, rd, limit_ms, indexp, report, arg);
	end_child(pid, r);
	return r == -ETIMEDOUT ? SOURCE_CHECK_HANGS : r;
}
