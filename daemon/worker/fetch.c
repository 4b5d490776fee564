#include "daemon/worker/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/conn.h"
#include "common/fd.h"
#include "common/keeper-verbs.h"
#include "daemon/worker/ctx.h"

#define CANCEL_POLL_MS 200

struct fetch {
	int sock;
	pid_t pid;
	uint32_t last_id;
};

/* Beside the program that runs: a build tree and an installed one need no setting. */
static int find_program(char path[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof("/" FETCH_PROGRAM));
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	strcpy(slash, "/" FETCH_PROGRAM);
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* Between fork and exec; does not return. Its environment is empty. */
static void become_fetch(const char *path, int sock, pid_t parent)
{
	char *const argv[] = { (char *)FETCH_PROGRAM, NULL };
	char *const no_env[] = { NULL };
	int null;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	if (sock != WORKER_FD_SOCKET && dup2(sock, WORKER_FD_SOCKET) < 0)
		_exit(126);
	fd_set_cloexec(WORKER_FD_SOCKET, false);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	fd_close_from(WORKER_FD_SOCKET + 1);
	execve(path, argv, no_env);
	_exit(127);
}

static int send_begin(struct fetch *f, const struct fetch_config *config)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (kv_new(&kv) < 0)
		return -ENOMEM;
	kv_set(kv, "op", "begin");
	kv_set(kv, "web", config->web);
	kv_set_u64(kv, "rate", config->rate);
	kv_set_u64(kv, "lowspeed", config->low_speed_s);
	return conn_send(f->sock, kv);
}

int fetch_new(struct fetch **fp, const struct fetch_config *config, struct error *err)
{
	_cleanup_(fetch_freep) struct fetch *f = calloc(1, sizeof(*f));
	pid_t parent = getpid();
	char path[PATH_MAX];
	int fds[2], r;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->sock = -1;
	r = find_program(path);
	if (r < 0) {
		error_set(err, EOPNOTSUPP, "sources from the web can't be staged by this node: "
			  "it has no " FETCH_PROGRAM);
		return error_mend(err, -EOPNOTSUPP, "ask the site");
	}
	r = conn_pair(fds);
	if (r < 0)
		return error_errno(err, -r, "make a socket");
	f->sock = fds[0];
	f->pid = fork();
	if (f->pid == 0)
		become_fetch(path, fds[1], parent);
	close(fds[1]);
	if (f->pid < 0)
		return error_errno(err, errno, "start " FETCH_PROGRAM);
	r = send_begin(f, config);
	if (r < 0)
		return error_errno(err, -r, "tell " FETCH_PROGRAM);
	*fp = steal_ptr(f);
	return 0;
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	fd_closep(&f->sock);
	if (f->pid > 0) {
		kill(f->pid, SIGKILL);
		while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(f);
}

static int is_gone(struct error *err)
{
	error_set(err, EIO, FETCH_PROGRAM " has ended by itself");
	return error_mend(err, -EIO, "try again; if it stays, ask the site");
}

int fetch_get(struct fetch *f, const struct fetch_get *get, int fd, uint32_t *idp,
	      struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	int r;

	if (kv_new(&kv) < 0)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "op", get->is_list ? "list" : "get");
	kv_set_u64(kv, "id", ++f->last_id);
	kv_set(kv, "url", get->url);
	kv_set_u64(kv, "from", get->from);
	kv_set_u64(kv, "to", get->to);
	kv_set_u64(kv, "whole", get->whole_is_fine);
	kv_set_u64(kv, "anyend", get->any_end);
	kv_set_u64(kv, "pipe", get->is_pipe);
	if (get->known) {
		kv_set(kv, "etag", get->known->etag);
		kv_set(kv, "modified", get->known->modified);
	}
	kv_set_u64(kv, "total", get->known_total);
	r = conn_send_fds(f->sock, kv, &fd, 1);
	if (r < 0)
		return is_gone(err);
	*idp = f->last_id;
	return 0;
}

void fetch_stop(struct fetch *f)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (kv_new(&kv) < 0)
		return;
	kv_set(kv, "op", "stop");
	conn_send(f->sock, kv);
}

static void copy_text(char *buf, size_t size, const struct kv *kv, const char *key)
{
	snprintf(buf, size, "%s", kv_get_or_empty(kv, key));
}

static int read_event(struct fetch_event *e, const struct kv *kv)
{
	const char *op = kv_get_or_empty(kv, "op");

	*e = (struct fetch_event){ .id = (uint32_t)kv_get_u64(kv, "id", 0) };
	if (!strcmp(op, "came")) {
		e->what = FETCH_CAME;
		e->bytes = kv_get_u64(kv, "bytes", 0);
	} else if (!strcmp(op, "done")) {
		e->what = FETCH_DONE;
		e->reply.total = kv_get_u64(kv, "total", HTTP_END);
		e->reply.ranges = kv_get_u64(kv, "ranges", 0);
		copy_text(e->reply.validator.etag, sizeof(e->reply.validator.etag), kv, "etag");
		copy_text(e->reply.validator.modified, sizeof(e->reply.validator.modified), kv,
			  "modified");
	} else if (!strcmp(op, "fail")) {
		e->what = FETCH_FAILED;
		error_set(&e->error, (int)kv_get_u64(kv, "code", EIO), "%s",
			  kv_get_or_empty(kv, "text"));
		e->error.exit_code = (enum stage_exit)kv_get_u64(kv, "exit", 0);
		e->error.mended = kv_get_u64(kv, "mended", 0);
	} else {
		return -EPROTO;
	}
	return 1;
}

int fetch_wait(struct fetch *f, const struct ctx *ctx, int timeout_ms, struct fetch_event *e,
	       struct error *err)
{
	uint64_t end = clock_ms() + (uint64_t)timeout_ms, now = 0;
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct pollfd p = { f->sock, POLLIN, 0 };
	int r = 0, step;

	do {
		step = timeout_ms < CANCEL_POLL_MS ? timeout_ms : CANCEL_POLL_MS;
		if (now)
			step = end - now < CANCEL_POLL_MS ? (int)(end - now) : CANCEL_POLL_MS;
		r = poll(&p, 1, step);
		if (r < 0 && errno != EINTR)
			return error_errno(err, errno, "wait for " FETCH_PROGRAM);
		if (ctx && ctx_is_cancelled(ctx))
			return ctx_check(ctx, err);
		now = clock_ms();
	} while (r <= 0 && now < end);
	if (r <= 0)
		return 0;
	r = conn_recv(f->sock, &kv);
	if (r <= 0 || read_event(e, kv) < 0)
		return is_gone(err);
	return 1;
}

int fetch_get_now(struct fetch *f, const struct ctx *ctx, const struct fetch_get *get, int fd,
		  struct http_reply *reply, struct error *err)
{
	struct fetch_event e = { 0 };
	uint32_t id;
	int r;

	r = fetch_get(f, get, fd, &id, err);
	while (r == 0 || (r > 0 && (e.id != id || e.what == FETCH_CAME)))
		r = fetch_wait(f, ctx, 60000, &e, err);
	if (r < 0)
		return r;
	if (e.what == FETCH_FAILED) {
		*err = e.error;
		return e.error.code;
	}
	*reply = e.reply;
	return 0;
}
