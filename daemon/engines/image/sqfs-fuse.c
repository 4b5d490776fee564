/*
 * Each thread receives a request, answers it, and takes the next. They wait in read(2). To stop a
 * thread, a flag is set and a signal makes the read return. The signal may come just before the
 * read, so it is repeated until the thread has ended.
 */
#define FUSE_USE_VERSION 312
#include "daemon/engines/image/sqfs-fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "common/sandbox/sandbox.h"
#include "common/util/child-bind.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-ops.h"
#include "daemon/engines/image/volume.h"

enum {
	FUSE_WAKE_SIGNAL = SIGUSR2,
	FUSE_WAKE_MS = 5,
	FUSE_SETTLE_MS = 1000,
	FUSE_FD_OUT = 3, /* descriptor of the child */
};

struct server_thread {
	struct sqfs_server *server;
	pthread_t thread;
	int fd; /* -1: the thread uses the session's descriptor */
	bool started;
	atomic_bool done;
};

struct sqfs_server {
	struct sqfs_view view;
	atomic_uint n_idle; /* number of threads that wait for requests */
	struct fuse_session *se;
	struct server_thread threads[SQFS_SERVER_MAX_THREADS];
	unsigned n_threads;
	sem_t changed; /* posted when a thread has ended, or a stop is wanted */
	atomic_bool stopping;
};

/* The last message of libfuse in this thread, because its return values say less. */
static _Thread_local char fuse_words[256];

static void server_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	vsnprintf(fuse_words, sizeof(fuse_words), fmt, ap);
	fuse_words[strcspn(fuse_words, "\n")] = '\0';
}

static void server_ignore_signal(int sig)
{
}

int sqfs_server_new(struct sqfs_server **sp, struct volume *volume,
		    const struct sqfs_server_options *options, struct error *err)
{
	char *argv[] = { (char *)"stage-worker", (char *)"-o",
			 (char *)"ro,nosuid,nodev,default_permissions,"
				 "fsname=stage-data,subtype=stage-data" };
	struct fuse_args args = FUSE_ARGS_INIT(ARRAY_SIZE(argv), argv);
	_cleanup_(sqfs_server_freep) struct sqfs_server *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, ENOMEM, "no memory to serve the mount");
	s->n_threads = options->n_threads;
	if (s->n_threads < 1)
		s->n_threads = 1;
	if (s->n_threads > SQFS_SERVER_MAX_THREADS)
		s->n_threads = SQFS_SERVER_MAX_THREADS;
	for (unsigned i = 0; i < SQFS_SERVER_MAX_THREADS; i++)
		s->threads[i] = (struct server_thread){ .server = s, .fd = -1 };
	sem_init(&s->changed, 0, 0);
	s->view = (struct sqfs_view){
		.volume = volume,
		.uid = options->uid,
		.gid = options->gid,
		.report = options->report,
		.report_arg = options->report_arg,
	};
	if (volume->ops->start(volume, &s->n_idle, s->n_threads) < 0)
		return error_set(err, ENOMEM, "no memory to serve the mount");
	fuse_set_log_func(server_log);
	s->se = fuse_session_new(&args, &sqfs_ops, sizeof(sqfs_ops), &s->view);
	fuse_opt_free_args(&args);
	if (!s->se)
		return error_set(err, EINVAL, "libfuse: %s", fuse_words);
	*sp = steal_ptr(s);
	return 0;
}

void sqfs_server_free(struct sqfs_server *s)
{
	if (!s)
		return;
	if (s->se)
		fuse_session_destroy(s->se);
	for (unsigned i = 0; i < SQFS_SERVER_MAX_THREADS; i++)
		fd_closep(&s->threads[i].fd);
	sem_destroy(&s->changed);
	free(s);
}

int sqfs_server_attach(struct sqfs_server *s, const int *fds, size_t n_fds, struct error *err)
{
	char path[32];
	int r;

	if (n_fds == 0)
		return error_set(err, EINVAL, "no descriptor to serve the mount on");
	for (size_t i = 1; i < n_fds; i++) {
		if (i < s->n_threads)
			s->threads[i].fd = fds[i];
		else
			close(fds[i]);
	}
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	if (fuse_session_mount(s->se, path) < 0) {
		close(fds[0]);
		return error_set(err, EINVAL, "libfuse: %s", fuse_words);
	}
	r = sqfs_channel_attach(s->se, fds[0]);
	return r < 0 ? error_errno(err, -r, "libfuse") : 0;
}

/* Calls fuse_session_mount(). said: messages of fusermount3, which it prints on its standard
 * error. */
static int mount_and_listen(struct fuse_session *se, const char *path, char *said, size_t size)
{
	_cleanup_(fd_closep) int words = memfd_create("fusermount3", MFD_CLOEXEC);
	_cleanup_(fd_closep) int stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC,
						   STDERR_FILENO + 1);
	bool listens = words >= 0 && stderr_fd >= 0 && dup2(words, STDERR_FILENO) >= 0;
	ssize_t n;
	int r;

	said[0] = '\0';
	r = fuse_session_mount(se, path);
	if (!listens)
		return r;
	dup2(stderr_fd, STDERR_FILENO);
	n = pread(words, said, size - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	return r;
}

/* Writes a message about what is missing on this machine. */
static int server_explain(const char *path, const char *said, struct error *err)
{
	int r;

	if (access("/dev/fuse", F_OK) < 0)
		r = error_set(err, ENODEV, "can't be mounted: this node has no /dev/fuse");
	else if (access("/dev/fuse", R_OK | W_OK) < 0)
		r = error_set(err, ENODEV, "can't be mounted: /dev/fuse may not be opened");
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		r = error_set(
			err, ENODEV,
			"can't be mounted: fusermount3 needs the rights of its owner, and this "
			"process may get none (no_new_privs, as in a container)%s%s",
			*said ? ": " : "", said);
	else
		r = error_set(err, ENODEV, "can't be mounted at %s: %s", path,
			      *said	      ? said
			      : fuse_words[0] ? fuse_words
					      : "fusermount3 failed without a word");
	return error_set_hint(err, r, "method=extract unpacks it");
}

int sqfs_server_mount(struct sqfs_server *s, const char *path, struct error *err)
{
	char said[256];
	int fd, r;

	fuse_words[0] = '\0';
	if (mount_and_listen(s->se, path, said, sizeof(said)) < 0)
		return server_explain(path, said, err);
	fd = fuse_session_fd(s->se);
	r = sqfs_channel_attach(s->se, fd);
	if (r < 0)
		return error_errno(err, -r, "libfuse");
	for (unsigned i = 1; i < s->n_threads; i++) {
		s->threads[i].fd = sqfs_channel_clone(fd);
		if (s->threads[i].fd < 0) {
			s->threads[i].fd = -1;
			break;
		}
	}
	return 0;
}

/* Starts a child that opens and closes the probe. The child keeps only the pipe: if it kept a
 * descriptor of the connection, the connection would live longer than the worker. */
static pid_t settle_spawn(const char *path, int out)
{
	const pid_t parent = getpid(), pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	if (!child_bind_to(parent, SIGKILL) || dup2(out, FUSE_FD_OUT) < 0)
		_exit(1);
	fd_close_from(FUSE_FD_OUT + 1);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	_exit(0);
}

/* Answers requests until the other end of the pipe in is closed. Returns false if this takes too
 * long. */
static bool settle_answer(struct sqfs_server *s, int in)
{
	const uint64_t deadline_ms = clock_ms() + FUSE_SETTLE_MS;
	struct pollfd fds[] = { { in, 0, 0 }, { fuse_session_fd(s->se), POLLIN, 0 } };
	struct fuse_buf buf = { .mem = NULL };
	bool is_closed = false;
	uint64_t now_ms;

	while (!is_closed && (now_ms = clock_ms()) < deadline_ms) {
		if (poll(fds, ARRAY_SIZE(fds), (int)(deadline_ms - now_ms)) < 0) {
			if (errno != EINTR)
				break;
			continue;
		}
		is_closed = fds[0].revents;
		if (is_closed || fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			break;
		if (fds[1].revents && fuse_session_receive_buf(s->se, &buf) > 0)
			fuse_session_process_buf(s->se, &buf);
	}
	free(buf.mem);
	return is_closed;
}

void sqfs_server_settle(struct sqfs_server *s, const char *path)
{
	_cleanup_(freep) char *probe = path_join(path, SQFS_OPS_PROBE);
	_cleanup_(fd_closep) int in = -1, out = -1;
	bool is_settled;
	int fds[2];
	pid_t pid;

	if (!probe || pipe2(fds, O_CLOEXEC) < 0)
		return;
	in = fds[0];
	out = fds[1];
	pid = settle_spawn(probe, out);
	if (pid < 0)
		return;
	fd_closep(&out);
	s->view.is_probed = true;
	is_settled = settle_answer(s, in);
	s->view.is_probed = false;
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, is_settled ? 0 : WNOHANG); /* the child may wait for our answer */
}

static void *thread_main(void *arg)
{
	struct server_thread *t = arg;
	struct fuse_session *se = t->server->se;
	struct fuse_buf buf = { .mem = NULL };

	sqfs_channel_use(t->fd);
	sandbox_enter_server_thread();
	while (!fuse_session_exited(se)) {
		int r;

		atomic_fetch_add(&t->server->n_idle, 1);
		r = fuse_session_receive_buf(se, &buf);
		atomic_fetch_sub(&t->server->n_idle, 1);
		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r <= 0)
			break;
		fuse_session_process_buf(se, &buf);
	}
	free(buf.mem);
	atomic_store(&t->done, true);
	sem_post(&t->server->changed);
	return NULL;
}

/* Starts the threads. They block all signals except the wake-up, so that other threads get the
 * signals. */
static int server_start(struct sqfs_server *s)
{
	sigset_t all, old;
	unsigned i;
	int r = 0;

	sigfillset(&all);
	sigdelset(&all, FUSE_WAKE_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < s->n_threads; i++) {
		struct server_thread *t = &s->threads[i];

		r = pthread_create(&t->thread, NULL, thread_main, t);
		if (r != 0)
			break;
		t->started = true;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return i == 0 ? -r : 0; /* a smaller number of threads can serve, too */
}

static bool server_wake(struct sqfs_server *s)
{
	bool any = false;

	for (unsigned i = 0; i < s->n_threads; i++) {
		struct server_thread *t = &s->threads[i];

		if (!t->started || atomic_load(&t->done))
			continue;
		any = true;
		if (atomic_load(&s->stopping))
			pthread_kill(t->thread, FUSE_WAKE_SIGNAL);
	}
	return any;
}

static void server_wait(struct sqfs_server *s)
{
	while (server_wake(s)) {
		struct timespec ts;

		if (!atomic_load(&s->stopping)) {
			sem_wait(&s->changed);
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += FUSE_WAKE_MS * 1000000L;
		ts.tv_sec += ts.tv_nsec / 1000000000L;
		ts.tv_nsec %= 1000000000L;
		sem_timedwait(&s->changed, &ts);
	}
	for (unsigned i = 0; i < s->n_threads; i++) {
		if (s->threads[i].started)
			pthread_join(s->threads[i].thread, NULL);
		s->threads[i].started = false;
	}
}

int sqfs_server_run(struct sqfs_server *s, struct error *err)
{
	struct sigaction action = { .sa_handler = server_ignore_signal };
	int r;

	sigemptyset(&action.sa_mask);
	sigaction(FUSE_WAKE_SIGNAL, &action, NULL);
	r = server_start(s);
	if (r < 0)
		return error_errno(err, -r, "start a thread to serve the mount");
	sandbox_enter_beside_server();
	server_wait(s);
	return 0;
}

bool sqfs_server_was_read(struct sqfs_server *s)
{
	return atomic_exchange(&s->view.was_read, false);
}

void sqfs_server_stop(struct sqfs_server *s)
{
	fuse_session_exit(s->se);
	atomic_store(&s->stopping, true);
	sem_post(&s->changed);
}
