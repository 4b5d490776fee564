/*
 * A job's daemon with its keeper, its workers and two clients. The input is a sequence of packets:
 * a byte for the sender, two bytes for the size, and the content. The keeper follows the protocol;
 * clients and workers may send anything. Whatever is sent, each change of a state is in the table,
 * each answer is a valid message, and nothing is leaked at the end.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "common/config/conf-internal.h"
#include "common/config/spec.h"
#include "common/protocol/conn.h"
#include "common/protocol/counts.h"
#include "common/protocol/keeper-verbs.h"
#include "common/protocol/keys.h"
#include "common/protocol/proto.h"
#include "common/slurm/job-cgroup.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/async.h"
#include "daemon/stagingd/job-load.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/log-ring.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/peer.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/manifest-cleanup.h"

#define MAX_PACKETS 40
#define MAX_WORKERS 16
#define MAX_ASYNCS 16
#define MAX_MOUNT_FDS 16
#define N_CLIENTS 2

enum speaker { CLIENT, CLIENT2, WORKER, WORKER2, KEEPER, EXIT, ASYNC, TIME, N_SPEAKERS };

struct async {
	void (*done)(void *arg, int r, const struct error *err);
	void *arg;
};

static struct play {
	const uint8_t *data, *end;
	int n_packets;
	struct loop *loop;
	struct loop_timer timer;
	struct job *job;
	struct log_ring *log;
	struct peer_owner owner;
	struct peer *peers[N_CLIENTS];
	int clients[N_CLIENTS];
	bool changed;
	int keeper;
	struct {
		uint32_t id;
		int fd;
	} workers[MAX_WORKERS];
	size_t n_workers;
	struct keeper_msg asked[16]; /* of the keeper, not answered yet */
	size_t n_asked;
	struct async asyncs[MAX_ASYNCS];
	uint64_t now_ms;
} play;

uint64_t __wrap_clock_ms(void);
int __wrap_env_file_write(const struct job *job, struct error *err);
void __wrap_job_cgroup_read_mounts(struct job_cgroup_mounts *m, const char *const *controllers,
				   size_t n);
int __wrap_job_cgroup_find_in(struct job_cgroup_mounts *m, size_t controller,
			      const struct job_cgroup_job *job, char *buf, size_t size);
int __wrap_manifest_cleanup_start(struct async **cp, struct loop *loop, const char *path,
				  uint64_t timeout_ms,
				  void (*done)(void *arg, int r, const struct error *err),
				  void *arg);
int __wrap_async_start(struct async **cp, struct loop *l,
		       int (*fn)(void *fn_arg, struct error *err), void *fn_arg,
		       uint64_t timeout_ms, void (*done)(void *arg, int r, const struct error *err),
		       void *arg);
void __wrap_async_abandon(struct async *c);

uint64_t __wrap_clock_ms(void)
{
	return play.now_ms;
}

int __wrap_env_file_write(const struct job *job, struct error *err)
{
	return 0;
}

/* The job has no cgroup here, and whoever mounts something meanwhile does not hold up the play. */
void __wrap_job_cgroup_read_mounts(struct job_cgroup_mounts *m, const char *const *controllers,
				   size_t n)
{
}

int __wrap_job_cgroup_find_in(struct job_cgroup_mounts *m, size_t controller,
			      const struct job_cgroup_job *job, char *buf, size_t size)
{
	return -ENOENT;
}

/* Asynchronous calls are done when the input says so. */
int __wrap_manifest_cleanup_start(struct async **cp, struct loop *loop, const char *path,
				  uint64_t timeout_ms,
				  void (*done)(void *arg, int r, const struct error *err),
				  void *arg)
{
	for (size_t i = 0; i < MAX_ASYNCS; i++)
		if (!play.asyncs[i].done) {
			play.asyncs[i] = (struct async){ done, arg };
			*cp = &play.asyncs[i];
			return 0;
		}
	return -EAGAIN;
}

int __wrap_async_start(struct async **cp, struct loop *l,
		       int (*fn)(void *fn_arg, struct error *err), void *fn_arg,
		       uint64_t timeout_ms, void (*done)(void *arg, int r, const struct error *err),
		       void *arg)
{
	return __wrap_manifest_cleanup_start(cp, l, NULL, timeout_ms, done, arg);
}

void __wrap_async_abandon(struct async *c)
{
	if (c)
		c->done = NULL;
}

/* What stagingd says itself: a worker's text may have the word, too. */
static bool tells_of_a_bug(const char *line)
{
	static const char *const heads[] = { "job=", "ds=" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		if (strncmp(line, heads[i], strlen(heads[i])) == 0 && strchr(line, ' '))
			line = strchr(line, ' ') + 1;
	return strncmp(line, "bug:", 4) == 0;
}

static void on_log(void *arg, const char *line)
{
	FUZZ_CHECK(!tells_of_a_bug(line) && !strchr(line, '\n'));
	log_ring_add(play.log, line);
}

static void on_change(void *arg, bool urgent)
{
	play.changed = true;
}

static void on_end(void *arg)
{
	loop_stop(play.loop);
}

static void on_close(void *arg, struct peer *peer)
{
	for (size_t i = 0; i < N_CLIENTS; i++)
		if (play.peers[i] == peer)
			play.peers[i] = NULL;
}

static void on_lease(void *arg, struct peer *peer)
{
}

static void on_later(void *arg)
{
	play.changed = true;
}

/* ---- what the daemon says ---- */

/* What a worker gets is whole, and can cut no header. */
static void check_keys(int fd)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;

	FUZZ_CHECK(keys_new(&keys) == 0);
	FUZZ_CHECK(keys_from_fd(keys, fd) == KEYS_E_SUCCESS && keys->access[0] && keys->secret[0]);
	FUZZ_CHECK(!strpbrk(keys->access, " \r\n") && !strpbrk(keys->token, " \r\n"));
	close(fd);
}

/* Asked of all at once: to look into an empty socket takes a buffer of 64 KiB. */
static bool is_anything_said(void)
{
	struct pollfd fds[N_CLIENTS + MAX_WORKERS];
	nfds_t n = 0;

	for (size_t i = 0; i < N_CLIENTS; i++)
		fds[n++] = (struct pollfd){ .fd = play.clients[i], .events = POLLIN };
	for (size_t i = 0; i < play.n_workers; i++)
		fds[n++] = (struct pollfd){ .fd = play.workers[i].fd, .events = POLLIN };
	return poll(fds, n, 0) > 0;
}

/* A task may bring keys, the answer to a mount its descriptors, and no other message brings any. */
static void read_orders(int worker)
{
	struct kv *kv;
	int fds[MAX_MOUNT_FDS];
	size_t n = 0;

	while (conn_recv_fds(worker, &kv, fds, MAX_MOUNT_FDS, &n) == 1) {
		const char *op = proto_get_op(kv);

		FUZZ_CHECK(op && !kv_get(kv, "secret"));
		if (n && !strcmp(op, PROTO_OP_TASK)) {
			FUZZ_CHECK(n == 1 && play.job->keys.keys);
			check_keys(fds[0]);
		} else {
			FUZZ_CHECK(n == 0 || !strcmp(op, PROTO_OP_MOUNTED));
			for (size_t i = 0; i < n; i++)
				close(fds[i]);
		}
		kv_free(kv);
	}
}

static void read_answers(void)
{
	if (!is_anything_said())
		return;
	for (size_t i = 0; i < N_CLIENTS; i++) {
		struct kv *kv;

		while (play.clients[i] >= 0 && conn_recv(play.clients[i], &kv) == 1) {
			FUZZ_CHECK(proto_get_op(kv) && kv_get(kv, "id"));
			FUZZ_CHECK(!kv_get(kv, "access") && !kv_get(kv, "secret") &&
				   !kv_get(kv, "token"));
			kv_free(kv);
		}
	}
	for (size_t i = 0; i < play.n_workers; i++)
		read_orders(play.workers[i].fd);
}

/* Keys are there as long as a dataset may need them, and no longer. */
static void check_that_keys_go(void)
{
	const struct job *job = play.job;
	bool needed = false;

	for (size_t i = 0; i < job->runs.n; i++) {
		const struct stage *s = job_runs_get_stage(&job->runs, i);

		needed = needed || (s->dataset->scheme == DATASET_SCHEME_S3 &&
				    (s->state == STAGE_QUEUED || s->state == STAGE_PROBING ||
				     s->state == STAGE_PREPARING || s->state == STAGE_STAGING));
	}
	FUZZ_CHECK(needed || !job->keys.keys);
}

static void read_verbs(void)
{
	struct keeper_msg m;
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd;

	for (;;) {
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
		if (recvmsg(play.keeper, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(m))
			return;
		FUZZ_CHECK(m.verb >= KEEPER_SPAWN && m.verb <= KEEPER_SERVES);
		FUZZ_CHECK(m.verb != KEEPER_COUNT || (m.id < COUNT_N && m.arg0 >= 0));
		FUZZ_CHECK((m.verb == KEEPER_SPAWN) == (h.msg_controllen > 0));
		FUZZ_CHECK(m.verb != KEEPER_MOUNT || (m.arg0 >= 0 && m.arg0 < RUNDIR_MAX_SLOTS &&
						      m.arg1 >= 1 && m.arg1 <= MAX_MOUNT_FDS));
		if (m.verb != KEEPER_COUNT && m.verb != KEEPER_SERVES &&
		    play.n_asked < ARRAY_SIZE(play.asked))
			play.asked[play.n_asked++] = m;
		if (m.verb != KEEPER_SPAWN)
			continue;
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
		if (play.n_workers < MAX_WORKERS) {
			fd_set_nonblock(fd, true);
			play.workers[play.n_workers].id = m.id;
			play.workers[play.n_workers++].fd = fd;
		} else {
			close(fd);
		}
	}
}

/* ---- what it is told ---- */

static void tell_keepers(uint32_t verb, uint32_t id, int64_t arg0, int64_t arg1, size_t n_fds)
{
	const struct keeper_msg m = { .verb = verb, .id = id, .arg0 = arg0, .arg1 = arg1 };

	fuzz_send(play.keeper, &m, sizeof(m), n_fds);
}

/* The oldest request is answered: well, or with an error. */
static void answer_verb(uint8_t how)
{
	struct keeper_msg m;

	if (how == 0xff)
		tell_keepers(KEEPER_CANCEL, 0, 0, 0, 0);
	if (play.n_asked == 0)
		return;
	m = play.asked[0];
	memmove(play.asked, play.asked + 1, --play.n_asked * sizeof(m));
	if (m.verb == KEEPER_END)
		return;
	tell_keepers(KEEPER_REPLY, m.id, how & 1 ? -(how >> 1) : 0, 1000,
		     m.verb == KEEPER_MOUNT && !(how & 1) ? (size_t)m.arg1 : 0);
}

static void end_worker(uint8_t which, int status)
{
	size_t i = play.n_workers ? which % play.n_workers : 0;

	if (!play.n_workers)
		return;
	tell_keepers(KEEPER_EXITED, play.workers[i].id, status, 0, 0);
	close(play.workers[i].fd);
	play.workers[i] = play.workers[--play.n_workers];
}

static void end_async(uint8_t how)
{
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < MAX_ASYNCS; i++) {
		struct async c = play.asyncs[i];

		if (!c.done)
			continue;
		play.asyncs[i].done = NULL;
		c.done(c.arg, how & 1 ? error_set(&err, EBUSY, "it is busy") : 0, &err);
		return;
	}
}

static void say(enum speaker who, const uint8_t *data, size_t size)
{
	uint8_t first = size ? data[0] : 0;

	switch (who) {
	case CLIENT:
	case CLIENT2:
		if (play.clients[who] >= 0)
			fuzz_send(play.clients[who], data, size, 0);
		break;
	case WORKER:
	case WORKER2:
		if (play.n_workers)
			fuzz_send(play.workers[(who == WORKER ? play.n_workers : 1) - 1].fd, data,
				  size, 0);
		break;
	case KEEPER:
		answer_verb(first);
		break;
	case EXIT:
		end_worker(first, size > 1 ? data[1] << (first & 8) : 0);
		break;
	case ASYNC:
		end_async(first);
		break;
	case TIME:
		play.now_ms += (uint64_t)first * first;
		break;
	case N_SPEAKERS:
		break;
	}
}

static void next_packet(void *arg)
{
	size_t n;

	read_verbs();
	read_answers();
	for (size_t i = 0; i < N_CLIENTS && play.changed; i++)
		if (play.peers[i])
			peer_pump(play.peers[i]);
	play.changed = false;
	check_that_keys_go();
	if (play.end - play.data < 3 || play.n_packets++ == MAX_PACKETS) {
		loop_stop(play.loop);
		return;
	}
	n = (size_t)play.data[1] << 8 | play.data[2];
	play.data += 3;
	n = n < (size_t)(play.end - play.data) ? n : (size_t)(play.end - play.data);
	say(play.data[-3] % N_SPEAKERS, play.data, n);
	play.data += n;
	loop_timer_set(play.loop, &play.timer, 0);
}

/* ---- the job ---- */

static const char conf_text[] =
	"[limits]\nMaxItems=6\n[source data]\nMatch=/data/**\n[tier ssd]\nKind=disk\nPath=/ssd/%u\n"
	"[source s3]\nMatch=s3://b/**\n";

static const char spec_text[] =
	"spec=1:script:0000000000000000:/data/a.tar,m=/data/b.sqsh:source:method=mount,"
	"l=/data/c::onfail=source,i=/data/d:ssd:onfail=ignore,s=s3://b/"
	"k::keys=env\0node=n1\0nodelist=n[1-2]\0";

/* One for all jobs, which only read it. */
static struct conf *get_conf(void)
{
	struct conf_report report = { .file = "conf" };
	struct conf_places places = { 0 };
	static struct conf *conf;

	if (conf)
		return conf;
	FUZZ_CHECK(conf_load(&conf, "/nowhere/stage-data.conf", NULL) == 0);
	FUZZ_CHECK(conf_parse(conf, conf_text, sizeof(conf_text) - 1, &places, &report) == 0 &&
		   conf->n_sources == 2 && conf->n_tiers == 2);
	conf_places_deinit(&places);
	return conf;
}

static void start_job(void)
{
	const struct job_options options = { .job_id = 7, .rundir = "/nowhere", .worker = "/none" };
	struct error err = ERROR_INIT;
	static int spec_fd = -1;
	struct job *job;
	int pair[2];

	if (spec_fd < 0) {
		spec_fd = memfd_create("spec", MFD_CLOEXEC);
		FUZZ_CHECK(write(spec_fd, spec_text, sizeof(spec_text) - 1) > 0);
	}
	FUZZ_CHECK(conn_pair(pair) == 0);
	play.keeper = pair[0];
	FUZZ_CHECK(job_new(&job, play.loop, &options, pair[1], &err) == 0);
	play.job = job;
	job->on_change = on_change;
	job->end.on_end = on_end;
	job->info.conf = get_conf();
	job_load_spec(job, spec_fd);
	FUZZ_CHECK(!job->failure.code && job->runs.n == 5);
	job->info.identity.user = strdup("user");
	job->info.identity.group = strdup("group");
	for (size_t i = 0; i < job->runs.n; i++)
		FUZZ_CHECK(job_load_admit(job, job->runs.runs[i], &err) == 0);
	job_changed(job, true);
	job_schedule(job);
	tell_keepers(KEEPER_MEMORY, 0, 1 << 30, 1 << 20, 0);
}

static void start_clients(void)
{
	play.owner = (struct peer_owner){ .loop = play.loop,
					  .job = play.job,
					  .log = play.log,
					  .on_close = on_close,
					  .on_lease = on_lease,
					  .on_later = on_later };
	for (size_t i = 0; i < N_CLIENTS; i++) {
		int pair[2];

		FUZZ_CHECK(conn_pair(pair) == 0);
		fd_set_nonblock(pair[0], true);
		fd_set_nonblock(pair[1], true);
		play.clients[i] = pair[0];
		FUZZ_CHECK(peer_new(&play.peers[i], &play.owner, pair[1]) == 0);
	}
}

static void finish(void)
{
	for (size_t i = 0; i < N_CLIENTS; i++) {
		if (play.peers[i])
			peer_close(play.peers[i]);
		fd_closep(&play.clients[i]);
	}
	loop_timer_cancel(&play.timer);
	read_verbs();
	play.job->info.conf = NULL; /* the next one's, too */
	job_free(play.job);
	loop_free(play.loop);
	log_ring_free(play.log);
	for (size_t i = 0; i < play.n_workers; i++)
		close(play.workers[i].fd);
	close(play.keeper);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int before;

	if (size > 8192)
		return -1;
	play = (struct play){ .data = data, .end = data + size, .now_ms = 1000 };
	FUZZ_CHECK(loop_new(&play.loop) == 0 && log_ring_new(&play.log) == 0);
	log_hook.fn = on_log;
	start_job();
	start_clients();
	before = fuzz_count_fds();
	loop_timer_init(&play.timer, next_packet, NULL);
	loop_timer_set(play.loop, &play.timer, 0);
	FUZZ_CHECK(loop_run(play.loop) == 0);
	finish();
	FUZZ_CHECK(fuzz_count_fds() <= before);
	return 0;
}
