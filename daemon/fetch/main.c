/*
 * stage-fetch: the only program that has network access. stage-worker starts it, as the user, with
 * a connection on fd 3 (fetch-protocol.h). The environment is empty, so no proxy, key log or
 * configuration of a library is taken from it.
 *
 * Each order has its own thread and its own connection to the server, and may wait as long as it
 * has to. When the connection to the worker is closed, the process ends at once, also if threads
 * are at work.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/sandbox/data-rlimit.h"
#include "common/sandbox/sandbox.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "common/util/list.h"
#include "common/util/log.h"
#include "common/util/rate-limit.h"
#include "daemon/engines/web/fetch-protocol.h"
#include "daemon/engines/web/web.h"
#include "daemon/fetch/http-get.h"
#include "daemon/fetch/s3-keys.h"
#include "daemon/fetch/s3-pages.h"

/* for TLS and pages of S3 listings, in addition to the memory per thread of data-rlimit.h */
#define FETCH_MEMORY (128 << 20)

struct order {
	struct list node;
	struct kv *kv;
	int fd;
	bool is_pipe;
	uint64_t id, unsaid; /* unsaid: bytes received but not yet reported to the worker */
	uint64_t said_ms;    /* time of the last report, or of the order */
	unsigned age;	     /* server->n_stops when the order arrived; the order is cancelled
			      * when n_stops grows */
	struct server *server;
};

struct server {
	int sock;
	struct web *web;
	char *profile;
	struct s3_keyring *keyring;
	struct http_config config;
	struct rate_limit rate;
	atomic_uint n_stops;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct list orders;
	size_t n_orders, n_idle, n_threads;
};

/* ---- reports to the worker ---- */

/* Sends a message to the worker, which never stops reading. If the worker is gone, this process
 * ends. */
static void fetch_say(struct server *s, const struct kv *kv)
{
	if (conn_send(s->sock, kv) < 0)
		_exit(0);
}

static void say_came(struct order *o)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (o->is_pipe || o->unsaid == 0 || kv_new(&kv) < 0)
		return;
	kv_set(kv, "op", "came");
	kv_set_u64(kv, "id", o->id);
	kv_set_u64(kv, "bytes", o->unsaid);
	o->unsaid = 0;
	o->said_ms = clock_ms();
	fetch_say(o->server, kv);
}

static void note_came(void *arg, size_t size)
{
	struct order *o = arg;

	o->unsaid += size;
	if (o->unsaid >= FETCH_STEP || clock_ms() - o->said_ms >= FETCH_STEP_MS)
		say_came(o);
}

static void say_end(struct order *o, int r, const struct http_reply *reply, const struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (kv_new(&kv) < 0)
		_exit(1);
	kv_set(kv, "op", r < 0 ? "fail" : "done");
	kv_set_u64(kv, "id", o->id);
	if (r < 0) {
		kv_set_u64(kv, "code", (uint64_t)-r);
		kv_set_u64(kv, "exit", err->exit_code);
		kv_set_u64(kv, "hint", err->has_hint);
		kv_set(kv, "text", err->text);
	} else {
		kv_set_u64(kv, "total", reply->total);
		kv_set_u64(kv, "ranges", reply->ranges);
		kv_set(kv, "etag", reply->validator.etag);
		kv_set(kv, "modified", reply->validator.modified);
		kv_set(kv, "name", reply->name);
	}
	fetch_say(o->server, kv);
}

/* ---- an order ---- */

static int put(void *arg, uint64_t at, const void *data, size_t size)
{
	struct order *o = arg;
	int r;

	if (o->age != atomic_load(&o->server->n_stops))
		return -ECANCELED;
	if (o->is_pipe)
		return fd_write_all(o->fd, data, size);
	r = fd_pwrite_all(o->fd, data, size, at);
	if (r < 0)
		return r;
	note_came(o, size);
	return 0;
}

static void pace(void *arg, size_t bytes)
{
	struct server *s = arg;

	rate_limit_sleep(rate_limit_take(&s->rate, bytes, clock_ms() * 1000));
}

static void read_known(struct http_validator *v, const struct kv *kv)
{
	snprintf(v->etag, sizeof(v->etag), "%s", kv_get_or_empty(kv, "etag"));
	snprintf(v->modified, sizeof(v->modified), "%s", kv_get_or_empty(kv, "modified"));
}

static void carry_out(struct http *h, struct order *o)
{
	struct http_request rq = {
		.url = kv_get_or_empty(o->kv, "url"),
		.from = kv_get_u64(o->kv, "from", 0),
		.to = kv_get_u64(o->kv, "to", HTTP_END),
		.whole_is_fine = kv_get_u64(o->kv, "whole", 0),
		.any_end = kv_get_u64(o->kv, "anyend", 0),
		.known_total = kv_get_u64(o->kv, "total", HTTP_END),
		.sink = put,
		.arg = o,
	};
	struct error err = ERROR_INIT;
	struct http_validator known;
	struct http_reply reply = { 0 };
	int r;

	if (kv_get(o->kv, "etag")) {
		read_known(&known, o->kv);
		rq.known = &known;
	}
	if (!strcmp(kv_get_or_empty(o->kv, "op"), "list"))
		r = s3_list(h, rq.url, kv_get_u64(o->kv, "pattern", 0), o->fd, note_came, o, &err);
	else
		r = http_get(h, &rq, &reply, &err);
	/* The reader of a pipe must see its end before it receives the result. On NFS, close()
	 * reports a full disk. */
	if (close(steal_fd(&o->fd)) < 0 && r >= 0)
		r = error_errno(&err, errno, "write");
	say_came(o);
	say_end(o, r, &reply, &err);
}

static void order_free(struct order *o)
{
	if (!o)
		return;
	fd_closep(&o->fd);
	kv_free(o->kv);
	free(o);
}

/* ---- threads ---- */

static struct order *take_order(struct server *s)
{
	struct order *o;

	pthread_mutex_lock(&s->lock);
	s->n_idle++;
	while (list_is_empty(&s->orders))
		pthread_cond_wait(&s->changed, &s->lock);
	s->n_idle--;
	o = list_entry(s->orders.next, struct order, node);
	list_remove(&o->node);
	s->n_orders--;
	pthread_mutex_unlock(&s->lock);
	return o;
}

static void *work(void *arg)
{
	struct server *s = arg;
	struct http_reply none = { 0 };
	struct error err = ERROR_INIT;
	struct http *h = NULL;
	struct order *o;
	int r;

	r = http_new(&h, &s->config, &err);
	for (;;) {
		o = take_order(s);
		if (r < 0)
			say_end(o, r, &none, &err);
		else
			carry_out(h, o);
		order_free(o);
	}
	return NULL;
}

static int add_order(struct server *s, struct order *o)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	list_append(&s->orders, &o->node);
	s->n_orders++;
	pthread_cond_signal(&s->changed);
	if (s->n_orders > s->n_idle && s->n_threads < FETCH_MAX_THREADS) {
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		if (pthread_create(&thread, &attr, work, s) == 0)
			s->n_threads++;
		else if (s->n_threads == 0)
			r = -EAGAIN;
		pthread_attr_destroy(&attr);
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* ---- the connection ---- */

static int begin(struct server *s)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(fd_closep) int keys_fd = -1;
	struct error err = ERROR_INIT;
	size_t n_fds = 0;

	if (conn_recv_fds(s->sock, &kv, &keys_fd, 1, &n_fds) <= 0 ||
	    strcmp(kv_get_or_empty(kv, "op"), "begin"))
		return -EPROTO;
	if (web_new_from_text(&s->web, kv_get_or_empty(kv, "web"), &err) < 0)
		return err.code;
	s->profile = strdup(kv_get_or_empty(kv, "profile"));
	if (!s->profile)
		return -ENOMEM;
	if (s3_keyring_new(&s->keyring, s->profile, keys_fd, &err) < 0)
		return err.code;
	rate_limit_init(&s->rate, kv_get_u64(kv, "rate", 0));
	s->config = (struct http_config){
		.web = s->web,
		.keyring = s->keyring,
		.low_speed_s = (unsigned)kv_get_u64(kv, "lowspeed", 60),
		.pace = s->rate.per_s ? pace : NULL,
		.arg = s,
	};
	return 0;
}

/* Returns 1: *op is a new order; 2: another message, already handled; 0: the connection ended; or
 * -errno. */
static int receive(struct server *s, struct order **op)
{
	struct order *o = calloc(1, sizeof(*o));
	size_t n_fds = 0;
	int r;

	if (!o)
		return -ENOMEM;
	o->fd = -1;
	o->server = s;
	list_init(&o->node);
	r = conn_recv_fds(s->sock, &o->kv, &o->fd, 1, &n_fds);
	if (r > 0 && n_fds == 0 && !strcmp(kv_get_or_empty(o->kv, "op"), "stop")) {
		atomic_fetch_add(&s->n_stops, 1);
		order_free(o);
		return 2;
	}
	if (r > 0 && (n_fds != 1 || (strcmp(kv_get_or_empty(o->kv, "op"), "get") &&
				     strcmp(kv_get_or_empty(o->kv, "op"), "list"))))
		r = -EPROTO;
	if (r <= 0) {
		order_free(o);
		return r;
	}
	o->id = kv_get_u64(o->kv, "id", 0);
	o->is_pipe = kv_get_u64(o->kv, "pipe", 0);
	o->age = atomic_load(&s->n_stops);
	o->said_ms = clock_ms();
	*op = o;
	return 1;
}

/* Serves orders until the connection ends. Returns the exit status. */
static int serve(int sock)
{
	struct server s = { .sock = sock };
	struct order *o;
	int r;

	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.changed, NULL);
	list_init(&s.orders);
	r = begin(&s);
	while (r >= 0 && (r = receive(&s, &o)) > 0)
		if (r == 1)
			r = add_order(&s, o);
	if (r < 0)
		log_error("connection with the worker: %s", strerror(-r));
	return r < 0 ? 1 : 0; /* exit() ends the threads */
}

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };

	if (argc > 1) {
		dprintf(STDERR_FILENO, "stage-fetch is started by stage-worker and takes no "
				       "arguments\n");
		return STAGE_EXIT_USAGE;
	}
	clearenv();
	signal(SIGPIPE, SIG_IGN);
	file_size_limit_catch();
	prctl(PR_SET_NAME, "stage-fetch");
	prctl(PR_SET_DUMPABLE, 0); /* the memory holds the user's keys */
	setrlimit(RLIMIT_CORE, &none);
	fd_set_cloexec(WORKER_FD_SOCKET, true);
	log_open("stage-fetch", STDERR_FILENO, 0);
	if (conn_check_own(WORKER_FD_SOCKET) < 0 || http_global_init() < 0)
		return 1;
	data_rlimit_set_to(FETCH_MEMORY, FETCH_MAX_THREADS);
	sandbox_enter_fetcher();
	_exit(serve(WORKER_FD_SOCKET)); /* no clean-up, because threads may still be working */
}
