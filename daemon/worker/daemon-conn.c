/*
 * The thread polls the socket with a timeout of DAEMON_CONN_TICK_MS. It passes an answer to the
 * thread that asked through a mailbox. All other messages are `cancel` or the end of the socket.
 * Then the copying threads see the flag and return, and the caller of stage() removes what was
 * made. A thread that hangs in a read of a dead file system does not return. So, after a grace
 * period, this thread removes what the manifest lists, and calls _exit(); the kernel ends the
 * hanging thread when it can. `claim` decides which of the two removes.
 */
#include "daemon/worker/daemon-conn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/proto.h"
#include "common/sandbox/sandbox.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define DAEMON_CONN_TICK_MS 120
#define ALIVE_MS 500 /* time between two signs of life */
#define DAEMON_CONN_MAX_FDS CONN_MAX_FDS

/* Which thread must remove what was made */
enum claim {
	CLAIM_NONE,   /* not decided: a stager is running */
	CLAIM_MAIN,   /* the main thread: the stager has returned */
	CLAIM_THREAD, /* the connection's thread: the stager did not return in time */
};

struct daemon_conn {
	int sock, wake;
	struct daemon_conn_limits limits;
	void (*undo)(void *arg);
	void *undo_arg;
	pthread_t thread;

	_Atomic uint64_t bytes, files, written;
	atomic_bool cancelled, paused, alive;

	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t changed;
	bool ending; /* set by daemon_conn_free() */
	enum claim claim;
	const char *wanted; /* op of the answer that a thread waits for */
	struct kv *answer;
	int fds[DAEMON_CONN_MAX_FDS];
	size_t n_fds;
	int reason;
	char reason_text[128];
	const struct daemon_conn_serving *server; /* NULL: no server, or it has ended */
	void *server_arg;
	uint64_t cache_size; /* 0: stagingd has sent no size */
	bool serving, in_stop;

	/* used by the thread only: */
	uint64_t sent_bytes, sent_files, moved_ms, told_ms, started_ms, ended_ms;
};

static void call_end(struct daemon_conn *l, int reason, const char *text)
{
	void (*stop)(void *arg) = NULL;

	pthread_mutex_lock(&l->lock);
	if (!l->reason) {
		l->reason = reason;
		strncpy(l->reason_text, text, sizeof(l->reason_text) - 1);
		l->ended_ms = clock_ms();
		atomic_store(&l->cancelled, true);
		stop = l->server ? l->server->stop : NULL;
		l->in_stop = stop != NULL;
	}
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (!stop)
		return;
	stop(l->server_arg);
	pthread_mutex_lock(&l->lock);
	l->in_stop = false;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* Sends progress, or a sign of life without progress, and restarts the stall timer. */
static void send_progress(struct daemon_conn *l)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_PROGRESS);
	uint64_t bytes = atomic_load(&l->bytes), files = atomic_load(&l->files), now = clock_ms();
	bool moved = bytes != l->sent_bytes || files != l->sent_files;

	if (!atomic_exchange(&l->alive, false) && !atomic_load(&l->paused) && !moved)
		return;
	l->moved_ms = now;
	if (!kv || (!moved && (!l->limits.stall_ms || now - l->told_ms < ALIVE_MS)))
		return;
	l->told_ms = now;
	l->sent_bytes = bytes;
	l->sent_files = files;
	kv_set_u64(kv, "bytes", bytes);
	kv_set_u64(kv, "files", files);
	kv_set_u64(kv, "written", atomic_load(&l->written));
	if (!moved)
		kv_set(kv, "alive", "1");
	conn_send(l->sock, kv); /* if the connection has ended, the next poll reports it */
}

static void take_answer(struct daemon_conn *l, struct kv *kv, const int *fds, size_t n_fds)
{
	pthread_mutex_lock(&l->lock);
	if (l->wanted && !strcmp(proto_get_op(kv), l->wanted)) {
		l->wanted = NULL;
		l->answer = kv;
		memcpy(l->fds, fds, n_fds * sizeof(*fds));
		l->n_fds = n_fds;
		pthread_cond_broadcast(&l->changed);
	} else {
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		kv_free(kv);
	}
	pthread_mutex_unlock(&l->lock);
}

/* Calls resize() under the lock, so that the server cannot be freed meanwhile. */
static void take_cache(struct daemon_conn *l, uint64_t size)
{
	pthread_mutex_lock(&l->lock);
	l->cache_size = size;
	if (l->server && l->server->resize && size)
		l->server->resize(l->server_arg, size);
	pthread_mutex_unlock(&l->lock);
}

static void tell_read(struct daemon_conn *l)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	bool was_read;

	pthread_mutex_lock(&l->lock);
	was_read = l->server && l->server->was_read && l->server->was_read(l->server_arg);
	pthread_mutex_unlock(&l->lock);
	if (was_read)
		kv = proto_new(PROTO_OP_READ);
	if (kv)
		conn_send(l->sock, kv);
}

/* Handles one message. Returns false if no more messages can come. */
static bool receive(struct daemon_conn *l)
{
	struct kv *kv = NULL;
	int fds[DAEMON_CONN_MAX_FDS], r;
	size_t n_fds = 0;

	r = conn_recv_fds(l->sock, &kv, fds, DAEMON_CONN_MAX_FDS, &n_fds);
	if (r == -EAGAIN)
		return true;
	if (r <= 0 || !proto_get_op(kv)) {
		for (size_t i = 0; r > 0 && i < n_fds; i++)
			close(fds[i]);
		kv_free(kv);
		call_end(l, -ECANCELED, "stagingd is gone");
		return false;
	}
	if (!strcmp(proto_get_op(kv), PROTO_OP_CANCEL)) {
		kv_free(kv);
		call_end(l, -ECANCELED, "cancelled");
		return true;
	}
	if (!strcmp(proto_get_op(kv), PROTO_OP_CACHE)) {
		take_cache(l, kv_get_u64(kv, "size", 0));
		kv_free(kv);
		return true;
	}
	take_answer(l, kv, fds, n_fds);
	return true;
}

static void check_clock(struct daemon_conn *l)
{
	uint64_t now = clock_ms();

	pthread_mutex_lock(&l->lock);
	if (l->wanted) /* waiting for stagingd is not a stall */
		l->moved_ms = now;
	pthread_mutex_unlock(&l->lock);
	if (l->limits.timeout_ms && now - l->started_ms > l->limits.timeout_ms)
		call_end(l, -ETIMEDOUT, "not ready within timeout=");
	else if (l->limits.stall_ms && now - l->moved_ms > l->limits.stall_ms)
		call_end(l, -ETIMEDOUT, "stalled: the source gave nothing for the time of stall=");
}

int daemon_conn_tell(int sock, const struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_ERROR);

	if (!kv)
		return -ENOMEM;
	kv_setf(kv, "code", "%d", (int)error_to_exit(err));
	kv_set_u64(kv, "errno", (uint64_t)-err->code);
	kv_set(kv, "text", err->text);
	return conn_send(sock, kv);
}

int daemon_conn_send_error(struct daemon_conn *l, const struct error *err)
{
	return daemon_conn_tell(l->sock, err);
}

static void tell_reason(struct daemon_conn *l)
{
	struct error err = ERROR_INIT;

	daemon_conn_get_reason(l, &err);
	daemon_conn_send_error(l, &err);
}

/* Cleans up and ends the process, because the stager did not return in time. */
static void end_alone(struct daemon_conn *l)
{
	bool mine;

	pthread_mutex_lock(&l->lock);
	mine = l->claim == CLAIM_NONE && !l->serving;
	if (mine)
		l->claim = CLAIM_THREAD;
	pthread_mutex_unlock(&l->lock);
	if (!mine)
		return;
	l->undo(l->undo_arg);
	tell_reason(l);
	_exit(1);
}

static void drain_wake(struct daemon_conn *l)
{
	uint64_t count;

	if (read(l->wake, &count, sizeof(count)) < 0)
		return; /* there was no wake-up */
}

static void *daemon_conn_run(void *arg)
{
	struct daemon_conn *l = arg;
	struct pollfd p[2] = { { .fd = l->sock, .events = POLLIN },
			       { .fd = l->wake, .events = POLLIN } };
	bool ending = false, serving = false, is_shut_in = false, late;
	int n, read_ms = -1;

	l->started_ms = l->moved_ms = clock_ms();
	while (!ending) {
		n = poll(p, 2, serving && !l->ended_ms ? read_ms : DAEMON_CONN_TICK_MS);
		if (n < 0 && errno != EINTR)
			break;
		if (n < 0)
			p[0].revents = 0; /* poll() failed, so revents is of the poll before */
		if (n == 0 && serving && !l->ended_ms)
			tell_read(l);
		if (p[0].fd >= 0 && p[0].revents && !receive(l))
			p[0].fd = -1;
		drain_wake(l);
		pthread_mutex_lock(&l->lock);
		ending = l->ending;
		serving = l->serving;
		read_ms = l->server && l->server->was_read ? l->server->read_ms : -1;
		pthread_mutex_unlock(&l->lock);
		if (serving && !is_shut_in)
			sandbox_enter_beside_server();
		is_shut_in = serving;
		if (ending || serving)
			continue;
		send_progress(l);
		if (!l->ended_ms)
			check_clock(l);
		late = l->ended_ms && clock_ms() - l->ended_ms >= l->limits.grace_ms;
		if (late)
			end_alone(l);
	}
	return NULL;
}

static void wake_thread(struct daemon_conn *l)
{
	uint64_t one = 1;

	if (write(l->wake, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the thread will wake up anyway */
}

int daemon_conn_new(struct daemon_conn **connp, int sock, const struct daemon_conn_limits *limits,
		    void (*undo)(void *arg), void *arg, struct error *err)
{
	struct daemon_conn *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return error_set(err, ENOMEM, "out of memory");
	*l = (struct daemon_conn){ .sock = sock, .limits = *limits, .undo = undo, .undo_arg = arg };
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->wake < 0 ? errno : pthread_create(&l->thread, NULL, daemon_conn_run, l);
	if (r) {
		if (l->wake >= 0)
			close(l->wake);
		free(l);
		error_errno(err, r, "start a thread");
		if (r == EAGAIN)
			error_set_hint(
				err, -r,
				"you may have no more processes on this node: end some, or ask "
				"the site for a higher limit (ulimit -u)");
		return -r;
	}
	*connp = l;
	return 0;
}

void daemon_conn_free(struct daemon_conn *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->ending = true;
	pthread_mutex_unlock(&l->lock);
	wake_thread(l);
	pthread_join(l->thread, NULL);
	close(l->wake);
	close(l->sock);
	kv_free(l->answer);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int daemon_conn_send(struct daemon_conn *l, const struct kv *kv)
{
	return conn_send(l->sock, kv);
}

/* Waits for the answer. The caller holds the lock. */
static int wait_answer(struct daemon_conn *l, struct kv **answerp, int *fds, size_t max_fds,
		       size_t *n_fdsp)
{
	size_t n;

	while (!l->answer && !l->reason)
		pthread_cond_wait(&l->changed, &l->lock);
	l->wanted = NULL;
	if (!l->answer)
		return l->reason;
	n = l->n_fds < max_fds ? l->n_fds : max_fds;
	if (n > 0)
		memcpy(fds, l->fds, n * sizeof(*fds));
	for (size_t i = n; i < l->n_fds; i++)
		close(l->fds[i]);
	l->n_fds = 0;
	if (n_fdsp)
		*n_fdsp = n;
	*answerp = steal_ptr(l->answer);
	return 0;
}

/* fd: descriptor to send with the request; -1: none. */
static int ask(struct daemon_conn *l, const struct kv *request, int fd, const char *answer_op,
	       struct kv **answerp, int *fds, size_t max_fds, size_t *n_fdsp, struct error *err)
{
	int r;

	pthread_mutex_lock(&l->lock);
	l->wanted = answer_op;
	pthread_mutex_unlock(&l->lock);
	r = conn_send_fds(l->sock, request, &fd, fd >= 0);
	pthread_mutex_lock(&l->lock);
	if (r < 0)
		l->wanted = NULL;
	else
		r = wait_answer(l, answerp, fds, max_fds, n_fdsp);
	pthread_mutex_unlock(&l->lock);
	if (r < 0 && daemon_conn_is_cancelled(l))
		return daemon_conn_get_reason(l, err);
	if (r < 0)
		return error_errno(err, -r, "ask stagingd");
	return 0;
}

int daemon_conn_ask(struct daemon_conn *l, const struct kv *request, const char *answer_op,
		    struct kv **answerp, int *fds, size_t max_fds, size_t *n_fdsp,
		    struct error *err)
{
	return ask(l, request, -1, answer_op, answerp, fds, max_fds, n_fdsp, err);
}

int daemon_conn_ask_with(struct daemon_conn *l, const struct kv *request, int fd,
			 const char *answer_op, struct kv **answerp, struct error *err)
{
	return ask(l, request, fd, answer_op, answerp, NULL, 0, NULL, err);
}

void daemon_conn_add_progress(struct daemon_conn *l, uint64_t bytes, uint64_t files)
{
	atomic_store_explicit(&l->alive, true, memory_order_relaxed);
	if (bytes)
		atomic_fetch_add_explicit(&l->bytes, bytes, memory_order_relaxed);
	if (files)
		atomic_fetch_add_explicit(&l->files, files, memory_order_relaxed);
}

uint64_t daemon_conn_get_progress(const struct daemon_conn *l)
{
	return atomic_load(&l->bytes);
}

void daemon_conn_set_written(struct daemon_conn *l, uint64_t bytes)
{
	atomic_store(&l->written, bytes);
}

void daemon_conn_set_paused(struct daemon_conn *l, bool paused)
{
	atomic_store(&l->paused, paused);
}

bool daemon_conn_is_cancelled(const struct daemon_conn *l)
{
	return atomic_load_explicit(&l->cancelled, memory_order_relaxed);
}

int daemon_conn_get_reason(struct daemon_conn *l, struct error *err)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = l->reason;
	if (r)
		error_set(err, -r, "%s", l->reason_text);
	if (r == -ETIMEDOUT)
		error_set_hint(
			err, r,
			"raise timeout= or stall= if it is only slow, else ask the site about "
			"that file system");
	pthread_mutex_unlock(&l->lock);
	return r;
}

void daemon_conn_end_stage(struct daemon_conn *l)
{
	bool theirs;

	pthread_mutex_lock(&l->lock);
	theirs = l->claim == CLAIM_THREAD;
	if (!theirs)
		l->claim = CLAIM_MAIN;
	pthread_mutex_unlock(&l->lock);
	if (theirs)
		for (;;)
			pause(); /* until the thread calls _exit() */
}

void daemon_conn_begin_stage(struct daemon_conn *l)
{
	pthread_mutex_lock(&l->lock);
	l->claim = CLAIM_NONE;
	pthread_mutex_unlock(&l->lock);
}

void daemon_conn_set_serving(struct daemon_conn *l, const struct daemon_conn_serving *serving,
			     void *arg)
{
	bool now;

	pthread_mutex_lock(&l->lock);
	l->server = serving;
	l->server_arg = arg;
	l->serving = true;
	if (serving->resize && l->cache_size)
		serving->resize(arg, l->cache_size);
	now = l->reason != 0;
	pthread_mutex_unlock(&l->lock);
	wake_thread(l);
	if (now && serving->stop)
		serving->stop(arg);
}

void daemon_conn_end_serving(struct daemon_conn *l)
{
	pthread_mutex_lock(&l->lock);
	l->server = NULL;
	while (l->in_stop)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}
