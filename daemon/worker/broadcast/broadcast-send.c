#include "daemon/worker/broadcast/broadcast-send.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/util/fd.h"
#include "daemon/worker/subprocess.h"

struct broadcast_send {
	int sock;
	pid_t pid;
	char *program, *job;
};

int broadcast_send_new(struct broadcast_send **sp, const char *program, const char *job,
		       struct error *err)
{
	_cleanup_(broadcast_send_freep) struct broadcast_send *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->sock = -1;
	s->program = strdup(program);
	s->job = strdup(job);
	if (!s->program || !s->job)
		return error_set(err, ENOMEM, "out of memory");
	r = subprocess_start(BROADCAST_PROGRAM, &s->sock, &s->pid);
	if (r < 0)
		return error_errno(err, -r, "start " BROADCAST_PROGRAM);
	*sp = steal_ptr(s);
	return 0;
}

void broadcast_send_free(struct broadcast_send *s)
{
	if (!s)
		return;
	fd_closep(&s->sock);
	subprocess_end(s->pid);
	free(s->program);
	free(s->job);
	free(s);
}

static int is_gone(struct error *err)
{
	return error_set(err, EIO, BROADCAST_PROGRAM " has ended by itself");
}

static int order(struct broadcast_send *s, const char *text, int fd, const char *path,
		 struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	int r;

	if (kv_new(&kv) < 0)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "op", "send");
	kv_set(kv, "program", s->program);
	kv_set(kv, "job", s->job);
	kv_set(kv, "path", path);
	if (text)
		kv_set(kv, "text", text);
	r = text ? conn_send(s->sock, kv) : conn_send_fds(s->sock, kv, &fd, 1);
	return r < 0 ? is_gone(err) : 0;
}

int broadcast_send_file(struct broadcast_send *s, int fd, const char *path, struct error *err)
{
	return order(s, NULL, fd, path, err);
}

int broadcast_send_text(struct broadcast_send *s, const char *text, const char *path,
			struct error *err)
{
	return order(s, text, -1, path, err);
}

int broadcast_send_poll(struct broadcast_send *s, int timeout_ms, struct error *why,
			struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct pollfd p = { s->sock, POLLIN, 0 };
	int r = poll(&p, 1, timeout_ms);

	if (r == 0 || (r < 0 && errno == EINTR))
		return 0;
	if (r < 0 || conn_recv(s->sock, &kv) <= 0)
		return is_gone(err);
	*why = (struct error)ERROR_INIT;
	if (strcmp(kv_get_or_empty(kv, "op"), "done"))
		error_set(why, kv_get_u64(kv, "code", EIO) == ENOENT ? ENOENT : EIO, "%s",
			  kv_get_or_empty(kv, "text"));
	return 1;
}
