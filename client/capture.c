#include "client/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd.h"
#include "common/slurm/stage-slurm.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"

#define NOT_FOUND 127
#define MAX_ARGS 16
#define FIRST_SIZE (64 << 10)

_Static_assert(CAPTURE_MAX_SIZE % FIRST_SIZE == 0 && !(CAPTURE_MAX_SIZE & (CAPTURE_MAX_SIZE - 1)),
	       "room is doubled until it is that");

int capture_find(const char *name, char *buf, size_t size)
{
	const char *path = getenv("PATH") ?: "/usr/bin:/bin";
	struct stat st;

	while (*path) {
		size_t n = strcspn(path, ":");
		int len = snprintf(buf, size, "%.*s/%s", (int)n, path, name);

		if (n > 0 && len > 0 && (size_t)len < size && stat(buf, &st) == 0 &&
		    S_ISREG(st.st_mode) && access(buf, X_OK) == 0)
			return 0;
		path += n + (path[n] == ':');
	}
	return -ENOENT;
}

static void exec_program(const char *const *argv, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(NOT_FOUND);
}

struct output {
	char *text;
	size_t size, room;
};

/* Makes room for at least one more byte, up to the limit. */
static int make_room(struct output *o)
{
	size_t room = o->room ? 2 * o->room : FIRST_SIZE;
	char *bigger;

	if (o->size < o->room || o->room == CAPTURE_MAX_SIZE)
		return 0;
	bigger = realloc(o->text, room + 1);
	if (!bigger)
		return -ENOMEM;
	o->text = bigger;
	o->room = room;
	return 0;
}

/* Reads until end of file or the deadline. */
static int read_output(int fd, uint64_t deadline_ms, struct output *o)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char waste[4096];
	uint64_t now;
	ssize_t n;

	for (;;) {
		now = clock_ms();
		if (now >= deadline_ms)
			return -ETIMEDOUT;
		if (make_room(o) < 0)
			return -ENOMEM;
		if (poll(&p, 1, (int)(deadline_ms - now)) <= 0)
			continue;
		if (o->size < o->room)
			n = read(fd, o->text + o->size, o->room - o->size);
		else
			n = read(fd, waste, sizeof(waste));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		o->size += o->size < o->room ? (size_t)n : 0;
	}
	o->text[o->size] = '\0';
	return 0;
}

int capture_run(const char *const *argv, uint64_t timeout_ms, char **textp)
{
	_cleanup_(fd_closep) int in = -1;
	struct output o = { 0 };
	int fds[2], status = -1, r;
	char path[4096];
	pid_t pid;

	if (!strchr(argv[0], '/') && capture_find(argv[0], path, sizeof(path)) < 0)
		return -ENOENT;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = fds[0];
	pid = fork();
	if (pid == 0)
		exec_program(argv, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return -EAGAIN;
	r = read_output(in, clock_ms() + timeout_ms, &o);
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0) {
		free(o.text);
		return r;
	}
	*textp = o.text;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns the same as capture_slurm(), or a status such as STAGE_SLURM_UNABLE. */
static int ask_stage_slurm(const char *const *argv, uint64_t timeout_ms, char **textp)
{
	char program[PATH_MAX];
	const char *args[MAX_ARGS] = { program };

	if (cmd_get_helper(program, sizeof(program), STAGE_SLURM_NAME) < 0)
		return -ENOENT;
	for (size_t i = 1; argv[i]; i++) {
		if (i == MAX_ARGS - 1)
			return -E2BIG;
		args[i] = argv[i];
	}
	return capture_run(args, timeout_ms, textp);
}

int capture_slurm(const char *const *argv, uint64_t timeout_ms, char **textp)
{
	const uint64_t deadline_ms = clock_ms() + timeout_ms;
	_cleanup_(freep) char *text = NULL;
	int r = ask_stage_slurm(argv, timeout_ms, &text);
	uint64_t now;

	if (r == -ETIMEDOUT)
		return r;
	if (r == STAGE_SLURM_OK || r == STAGE_SLURM_REFUSED) {
		*textp = steal_ptr(text);
		return r;
	}
	now = clock_ms();
	return now < deadline_ms ? capture_run(argv, deadline_ms - now, textp) : -ETIMEDOUT;
}
