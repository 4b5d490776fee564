#include "daemon/worker/web/fetch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/util/fd.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/subprocess.h"

#define CANCEL_POLL_MS 200

struct fetch {
	int sock;
	pid_t pid;
	uint32_t last_id;
};

static int send_begin(struct fetch *f, const struct fetch_config *config)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (kv_new(&kv) < 0)
		return -ENOMEM;
	kv_set(kv, "op", "begin");
	kv_set(kv, "web", config->web);
	kv_set(kv, "profile", config->profile);
	kv_set_u64(kv, "rate", config->rate);
	kv_set_u64(kv, "lowspeed", config->low_speed_s);
	return conn_send_fds(f->sock, kv, &config->keys_fd, config->keys_fd >= 0);
}

int fetch_new(struct fetch **fp, const struct fetch_config *config, struct error *err)
{
	_cleanup_(fetch_freep) struct fetch *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->sock = -1;
	r = subprocess_start(FETCH_PROGRAM, &f->sock, &f->pid);
	if (r == -ENOENT || r == -EACCES) {
		error_set(err, EOPNOTSUPP,
			  "sources from the web can't be staged by this node: "
			  "it has no " FETCH_PROGRAM);
		return error_set_hint(err, -EOPNOTSUPP, "ask the site");
	}
	if (r < 0)
		return error_errno(err, -r, "start " FETCH_PROGRAM);
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
	subprocess_end(f->pid);
	free(f);
}

static int is_gone(struct error *err)
{
	error_set(err, EIO, FETCH_PROGRAM " has ended by itself");
	return error_set_hint(err, -EIO, "try again; if it stays, ask the site");
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
	kv_set_u64(kv, "pattern", get->is_pattern);
	if (get->known && (get->known->etag[0] || get->known->modified[0])) {
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
		copy_text(e->reply.name, sizeof(e->reply.name), kv, "name");
	} else if (!strcmp(op, "fail")) {
		e->what = FETCH_FAILED;
		error_set(&e->error, (int)kv_get_u64(kv, "code", EIO), "%s",
			  kv_get_or_empty(kv, "text"));
		e->error.exit_code = (enum stage_exit)kv_get_u64(kv, "exit", 0);
		e->error.has_hint = kv_get_u64(kv, "hint", 0);
	} else {
		return -EPROTO;
	}
	return 1;
}

int fetch_wait(struct fetch *f, struct ctx *ctx, int timeout_ms, struct fetch_event *e,
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
	if (ctx && e->what != FETCH_FAILED)
		ctx_add_progress(ctx, 0, 0);
	return 1;
}

int fetch_get_now(struct fetch *f, struct ctx *ctx, const struct fetch_get *get, int fd,
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
