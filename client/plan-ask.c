/*
 * A worker makes the plan, so that the explanation agrees with what would be done. It gets the same
 * task that stagingd would send, with mode=plan; it looks at the source as the user and answers
 * with `facts`, or with `error` where nothing can be done.
 */
#include "client/plan-ask.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd.h"
#include "client/items.h"
#include "client/waitloop.h"
#include "common/config/conf.h"
#include "common/dataset/dataset.h"
#include "common/policy/source-rules.h"
#include "common/policy/memory-limits.h"
#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/protocol/keys.h"
#include "common/protocol/proto.h"
#include "common/util/child-bind.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/memory.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

void plan_answer_deinit(struct plan_answer *a)
{
	kv_free(a->facts);
	free(a->rule);
	free(a->match);
	free(a->tiers);
	*a = (struct plan_answer){ 0 };
}

/* Checks the dataset as stagingd does. Only the environment is known about the job. */
static int admit(struct source_rules *a, const struct conf *conf, struct dataset *d,
		 const char *host, struct error *err)
{
	const struct group *gr = getgrgid(getgid());
	/* copied, because the next call overwrites it */
	_cleanup_(freep) char *group = gr ? strdup(gr->gr_name)
					  : strutil_printf("%u", (unsigned)getgid());
	char **groups = NULL;
	size_t n_groups = 0;
	struct source_rules_input in = { .conf = conf,
					 .user = items_get_user(),
					 .permissive = !conf->from_file };
	int r = group ? conf_get_own_groups(&groups, &n_groups) : -ENOMEM;

	if (r < 0)
		return error_errno(err, -r, "groups of this user");
	in.expand = (struct conf_expand){ .user = in.user, .group = group, .node = host };
	in.groups = (const char *const *)groups;
	in.n_groups = n_groups;
	r = source_rules_apply(a, &in, d, err);
	conf_free_groups(groups, n_groups);
	return r;
}

/* Describes a job with this memory limit, before its first dataset is staged. */
static void put_memory(struct kv *kv, const struct conf *conf, const struct plan_request *request)
{
	struct memory_facts f;

	memory_facts_init(&f, conf, conf_get_tier(conf, "shm"));
	f.job_limit = request->memory;
	f.job_used = request->used;
	memory_facts_to_kv(&f, kv);
}

static struct kv *make_task(const struct conf *conf, const struct source_rules *a,
			    const struct dataset *d, const char *host,
			    const struct plan_request *request)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_TASK);
	_cleanup_(freep) char *item = NULL;

	if (!kv || dataset_to_string(d, &item) < 0)
		return NULL;
	kv_set(kv, "mode", "plan");
	kv_set(kv, "name", d->name);
	kv_set(kv, "item", item);
	kv_set(kv, "job", "0");
	kv_set(kv, "node", host);
	kv_set(kv, "user", items_get_user());
	kv_set(kv, "rundir", "/dev/shm");
	kv_set(kv, "data", "/dev/shm");
	kv_set(kv, "tmp", "/dev/shm");
	kv_set_u64(kv, "slot", 0);
	kv_set_u64(kv, "keeper", 0);
	kv_set_u64(kv, "nodes", 1);
	kv_set_u64(kv, "nodeindex", 0);
	kv_set(kv, "rule", a->rule);
	kv_set(kv, "rulematch", a->rule_match);
	kv_set(kv, "web", a->web);
	kv_set(kv, "methods", a->methods);
	kv_set(kv, "tiers", a->tiers);
	kv_set_u64(kv, "maxbytes", a->max_bytes);
	conf_put_limits(conf, NULL, kv);
	put_memory(kv, conf, request);
	return steal_ptr(kv);
}

static int start_worker(int *fdp, pid_t *pidp, const struct waitloop *loop, struct error *err)
{
	const pid_t parent = getpid();
	char path[PATH_MAX];
	int fds[2], r, fd;

	if (cmd_get_helper(path, sizeof(path), "stage-worker") < 0 || access(path, X_OK) < 0)
		return error_errno(err, errno, "%s", path);
	r = conn_pair(fds);
	if (r < 0)
		return error_errno(err, -r, "socketpair");
	*pidp = fork();
	if (*pidp == 0) {
		if (!child_bind_to(parent, SIGKILL))
			_exit(126);
		sigprocmask(SIG_SETMASK, waitloop_get_mask(loop), NULL);
		fd = fds[1] == WORKER_FD_SOCKET ? fds[1] : dup2(fds[1], WORKER_FD_SOCKET);
		if (fd < 0 || fd_set_cloexec(WORKER_FD_SOCKET, false) < 0 ||
		    !freopen("/dev/null", "w", stderr))
			_exit(126);
		fd_close_from(WORKER_FD_SOCKET + 1);
		keys_forget_env();
		execl(path, "stage-worker", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	*fdp = fds[0];
	return *pidp < 0 ? error_set(err, EAGAIN, "fork") : 0;
}

/* Returns 1 if this was the worker's last message. */
static int handle_packet(struct plan_answer *a, int fd, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *op;
	int r;

	r = conn_recv(fd, &kv);
	if (r == 0 || r == -ECONNRESET)
		return a->facts || a->code ? 1
					   : error_set(err, EPIPE,
						       "stage-worker ended without an "
						       "answer");
	if (r < 0)
		return error_errno(err, -r, "receive from stage-worker");
	op = proto_get_op(kv);
	if (op && !strcmp(op, PROTO_OP_FACTS)) {
		kv_free(a->facts);
		a->facts = steal_ptr(kv);
	} else if (op && !strcmp(op, PROTO_OP_ERROR)) {
		a->code = (int)kv_get_u64(kv, "code", STAGE_EXIT_FAILED) & 0xff;
		snprintf(a->text, sizeof(a->text), "%s", kv_get_or_empty(kv, "text"));
	}
	return 0;
}

static int talk(struct plan_answer *a, int fd, const struct kv *task, int keys_fd,
		struct waitloop *loop, struct error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	r = conn_send_fds(fd, task, &keys_fd, keys_fd >= 0);
	if (r < 0)
		return error_errno(err, -r, "send to stage-worker");
	for (;;) {
		r = waitloop_wait(loop, &p, 1);
		if (r == WAITLOOP_SIGNAL)
			return error_exit(err, STAGE_EXIT_INTERRUPTED, EINTR, "interrupted");
		if (r == WAITLOOP_TIMEOUT)
			return error_exit(err, STAGE_EXIT_TIMEOUT, ETIMEDOUT,
					  "the source does not answer");
		r = r == WAITLOOP_READY ? handle_packet(a, fd, err) : r;
		if (r != 0)
			return r > 0 ? 0 : r;
	}
}

static int ask_worker(struct plan_answer *a, const struct kv *task, int keys_fd,
		      uint64_t timeout_ms, struct error *err)
{
	_cleanup_(waitloop_close) struct waitloop loop = WAITLOOP_CLOSED;
	_cleanup_(fd_closep) int fd = -1;
	pid_t pid = -1;
	int r;

	r = waitloop_open(&loop, NULL, timeout_ms);
	if (r < 0)
		return error_errno(err, -r, "signalfd");
	r = start_worker(&fd, &pid, &loop, err);
	if (r == 0)
		r = talk(a, fd, task, keys_fd, &loop, err);
	if (pid > 0) {
		/* Do not wait for the worker on failure: it may hang in a file system. */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, r < 0 ? WNOHANG : 0);
	}
	return r;
}

/* Returns a descriptor with the keys of the environment if the dataset may use them; -1: no
 * keys. */
static int get_keys_fd(const struct dataset *d)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;

	if (!dataset_takes_keys(d) || keys_new(&keys) < 0 || keys_from_env(keys, NULL) != 0)
		return -1;
	return keys_to_fd(keys);
}

int plan_ask(struct plan_answer *a, struct dataset *d, const struct plan_request *request,
	     struct error *err)
{
	_cleanup_(fd_closep) int keys_fd = -1;
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(kv_freep) struct kv *task = NULL;
	_cleanup_(source_rules_deinit) struct source_rules admitted = { 0 };
	char host[256] = "";
	int r;

	gethostname(host, sizeof(host) - 1);
	r = conf_load(&conf, cmd_get_conf(), err);
	if (r == 0 && conf->from_file)
		r = conf_admit(conf, items_get_user(), getenv("SLURM_JOB_PARTITION"), err);
	if (r == 0)
		r = admit(&admitted, conf, d, host, err);
	if (r < 0)
		return r;
	task = make_task(conf, &admitted, d, host, request);
	if (!task)
		return error_set(err, ENOMEM, "out of memory");
	a->rule = steal_ptr(admitted.rule);
	a->match = steal_ptr(admitted.rule_match);
	a->tiers = steal_ptr(admitted.tiers);
	a->max_rate = admitted.max_rate;
	keys_fd = get_keys_fd(d);
	return ask_worker(a, task, keys_fd, request->timeout_ms, err);
}

bool plan_is_answer(const struct error *err)
{
	enum stage_exit code = error_to_exit(err);

	return code == STAGE_EXIT_USAGE || code == STAGE_EXIT_REFUSED || code == STAGE_EXIT_TIMEOUT;
}

void plan_look_for_memory(struct plan_request *q)
{
	if (q->memory || !getenv("SLURM_JOB_ID") || !getenv("SLURMD_NODENAME"))
		return;
	if (memory_read_cgroup(&q->memory, &q->used) < 0)
		q->memory = q->used = 0;
}

void plan_get_keep(const struct conf *conf, const struct dataset *d, const struct kv *facts,
		   char *buf, size_t size)
{
	const char *tier = kv_get_or_empty(facts, "tier"), *why;
	const struct conf_tier *t = conf ? conf_get_tier(conf, tier) : NULL;
	char time[PARSE_DURATION_TEXT];
	uint64_t keep_ms;

	buf[0] = '\0';
	if (!d->keep_ms || !conf || (!t && *tier == '/'))
		return;
	why = source_rules_refuse_keep(t, d);
	if (why) {
		snprintf(buf, size, "no: %s", why);
		return;
	}
	keep_ms = d->keep_ms < t->max_keep_ms ? d->keep_ms : t->max_keep_ms;
	snprintf(buf, size, "for %s after the last job that used it%s",
		 duration_to_string(keep_ms, time),
		 keep_ms < d->keep_ms ? ": the site's MaxKeep=" : "");
}

void plan_get_found(const struct kv *facts, char *buf, size_t size)
{
	const uint64_t total = kv_get_u64(facts, "total", 0);
	const uint64_t n_files = kv_get_u64(facts, "nfiles", 0);
	const char *format = kv_get_or_empty(facts, "format");
	char bytes[PARSE_SIZE_TEXT], files[64] = "";

	if (!strcmp(format, "plain"))
		format = strcmp(kv_get_or_empty(facts, "kind"), "dir") ? "file" : "directory";
	if (n_files > 1)
		snprintf(files, sizeof(files), ", %llu files", (unsigned long long)n_files);
	buf[0] = '\0';
	if (format[0] || total)
		snprintf(buf, size, "%s%s%s%s", format, format[0] ? ", " : "",
			 total ? size_to_string(total, bytes) : "size not known", files);
}
