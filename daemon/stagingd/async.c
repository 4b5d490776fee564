/*
 * The child sends its struct error through a pipe, which has space for all of it. A child that
 * hangs in the kernel does not end even after SIGKILL. done() is called at the deadline
 * nevertheless, and the struct of the call stays allocated until the child has ended.
 */
#include "daemon/stagingd/async.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/loop.h"

struct async {
	struct loop *loop;
	struct loop_child child;
	struct loop_timer deadline;
	int result_fd;
	/* NULL: was called already, or the task was abandoned */
	void (*done)(void *arg, int r, const struct error *err);
	void *arg;
};

static void async_free(struct async *c)
{
	loop_child_remove(&c->child);
	loop_timer_cancel(&c->deadline);
	fd_closep(&c->result_fd);
	free(c);
}

static void async_tell(struct async *c, const struct error *err)
{
	void (*done)(void *arg, int r, const struct error *err) = c->done;

	c->done = NULL;
	loop_timer_cancel(&c->deadline);
	if (done)
		done(c->arg, err->code, err);
}

static void on_end(void *arg, int status)
{
	struct async *c = arg;
	struct error err = ERROR_INIT;

	if (fd_read_all(c->result_fd, &err, sizeof(err)) < 0) {
		if (WIFSIGNALED(status))
			error_set(&err, ECHILD, "the helper process was ended by signal %d (%s)",
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
		else
			error_set(&err, ECHILD, "the helper process ended without a word");
	}
	err.text[sizeof(err.text) - 1] = '\0';
	async_tell(c, &err);
	async_free(c);
}

static void on_deadline(void *arg)
{
	struct async *c = arg;
	struct error err = ERROR_INIT;

	kill(c->child.pid, SIGKILL);
	error_set(&err, ETIMEDOUT, "not done in time; the file system may hang");
	async_tell(c, &err);
}

/* Runs fn in the child and sends its error to the parent. Does not return. */
static void work(int fd, int (*fn)(void *fn_arg, struct error *err), void *fn_arg)
{
	struct error err = ERROR_INIT;
	int r;

	loop_restore_signals();
	if (fd != STDERR_FILENO + 1)
		fd = dup2(fd, STDERR_FILENO + 1);
	if (fd < 0)
		_exit(1);
	fd_close_from(fd + 1);
	fd_set_cloexec(fd, true);
	log_open("stagingd", STDERR_FILENO, 0);
	r = fn(fn_arg, &err);
	if (r < 0 && !err.code)
		error_errno(&err, -r, "failed");
	if (r == 0)
		err = (struct error)ERROR_INIT;
	fd_write_all(fd, &err, sizeof(err));
	_exit(0);
}

int async_start(struct async **cp, struct loop *l, int (*fn)(void *fn_arg, struct error *err),
		void *fn_arg, uint64_t timeout_ms,
		void (*done)(void *arg, int r, const struct error *err), void *arg)
{
	struct async *c = calloc(1, sizeof(*c));
	int fds[2];
	pid_t pid;

	if (!c)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(c);
		return -errno;
	}
	*c = (struct async){ .loop = l, .result_fd = fds[0], .done = done, .arg = arg };
	list_init(&c->child.node);
	loop_timer_init(&c->deadline, on_deadline, c);
	pid = fork();
	if (pid == 0)
		work(fds[1], fn, fn_arg);
	close(fds[1]);
	if (pid < 0) {
		int r = -errno;

		async_free(c);
		return r;
	}
	loop_child_add(l, &c->child, pid, on_end, c);
	loop_timer_set(l, &c->deadline, timeout_ms);
	*cp = c;
	return 0;
}

void async_abandon(struct async *c)
{
	if (c)
		c->done = NULL;
}
