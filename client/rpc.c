/*
 * The connection is nonblocking and sits in a waitloop, so that a signal or the user's --timeout
 * ends a wait at once, whatever the daemon does. There is no reconnect: if a daemon has ended, its
 * workers have ended, too, and the user must know this. Only at the start of a job, a socket that
 * does not exist yet is tried again (rpc_open_early()).
 */
#include "client/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/output.h"
#include "client/waitloop.h"
#include "common/protocol/conn.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

#define LOOK_US 50000

struct rpc {
	int fd;
	char *path;
	uint32_t last_id;
};

#define no_staging(err, ...)                                                                       \
	error_exit(err, STAGE_EXIT_NO_STAGING, ENOENT, "no staging here: " __VA_ARGS__)

static int socket_of_job(const char *job, char *buf, size_t size)
{
	uint32_t job_id;

	if (!job || parse_uint32(job, &job_id) < 0)
		return -EINVAL;
	return rundir_path(buf, size, job_id, RUNDIR_SOCK) < 0 ? -ENAMETOOLONG : 0;
}

int rpc_find_socket(char *buf, size_t size, struct error *err)
{
	const char *path = getenv("STAGE_DATA_SOCKET");

	if (path && path[0]) {
		if (strlen(path) >= size)
			return no_staging(err, "STAGE_DATA_SOCKET is too long");
		strcpy(buf, path);
		return 0;
	}
	if (socket_of_job(getenv("SLURM_JOB_ID"), buf, size) == 0)
		return 0;
	if (getenv("SLURM_JOB_ID"))
		return no_staging(err, "SLURM_JOB_ID=%s is no job that runs",
				  getenv("SLURM_JOB_ID"));
	return no_staging(err, "this is no job (SLURM_JOB_ID and STAGE_DATA_SOCKET are "
			       "not set); use it in a job with --stage-data, or set SLURM_JOB_ID "
			       "and add --all-nodes. Without a job, use stagectl explain ITEM or "
			       "stagectl run");
}

#define STILL_READABLE                                                                             \
	"What was ready can be read until the job ends; nothing more is staged on this node"

/* Returns whether RUNDIR_ENV exists. The daemon writes this file after it has made the socket. */
static bool has_env(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *env = NULL;

	env = slash ? strutil_printf("%.*s/" RUNDIR_ENV, (int)(slash - path), path) : NULL;
	if (!env)
		return false;
	return access(env, F_OK) == 0;
}

/* Reports that the socket has been replaced by something else, or removed from a complete run
 * directory. */
static int was_taken_away(const char *path, struct error *err)
{
	static const char hint[] =
		"staging continues, but stagectl cannot reach it any more: what is ready is in "
		"STAGE_DATA_DIR until the job's end; to get the rest, submit the job again";
	struct stat st;

	if (lstat(path, &st) == 0)
		return S_ISSOCK(st.st_mode)
			       ? 0
			       : no_staging(err, "%s is %s instead of the job's socket; %s", path,
					    S_ISDIR(st.st_mode) ? "a directory" : "something else",
					    hint);
	return has_env(path) ? no_staging(err, "%s was removed; %s", path, hint) : 0;
}

int rpc_open_path(struct rpc **rpcp, const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct error cause = ERROR_INIT;
	struct rpc *rpc;
	int r;

	fd = conn_connect(path, &cause);
	if (fd < 0) {
		r = was_taken_away(path, err);
		if (r < 0)
			return r;
	}
	if (fd == -ENOENT || fd == -ENOTDIR)
		return error_exit(
			err, STAGE_EXIT_NO_STAGING, -fd,
			"no staging here: %s is not there; did the job ask with "
			"--stage-data, and is this one of its nodes? On a login node, add "
			"--all-nodes, which status, wait and log have",
			path);
	if (fd == -ECONNREFUSED)
		return error_exit(err, STAGE_EXIT_NO_STAGING, -fd,
				  "no staging here: nobody answers at %s; stagingd has "
				  "ended. " STILL_READABLE,
				  path);
	if (fd < 0)
		return error_exit(err, STAGE_EXIT_NO_STAGING, -fd, "%s", cause.text);
	fd_set_nonblock(fd, true);
	rpc = calloc(1, sizeof(*rpc));
	if (rpc)
		rpc->path = strdup(path);
	if (!rpc || !rpc->path) {
		free(rpc);
		return error_set(err, ENOMEM, "out of memory");
	}
	rpc->fd = steal_fd(&fd);
	*rpcp = rpc;
	return 0;
}

const char *rpc_get_node(char *buf, size_t size)
{
	const char *node = getenv("SLURMD_NODENAME");

	if (node && node[0])
		return node;
	if (gethostname(buf, size) < 0)
		return "unknown";
	buf[size - 1] = '\0';
	return buf;
}

/* Tries the sockets of all components of a heterogeneous job. The components have different ids and
 * run directories, but the environment may be that of the first one. */
static int open_component(struct rpc **rpcp, struct error *err)
{
	char name[64], path[256];
	uint32_t n = 0;
	int r;

	if (socket_of_job(getenv("SLURM_JOB_ID"), path, sizeof(path)) == 0) {
		r = rpc_open_path(rpcp, path, err);
		if (r == 0)
			return 0;
	}
	if (parse_uint32(getenv("SLURM_HET_SIZE") ?: "", &n) < 0)
		return -ENOENT;
	for (uint32_t i = 0; i < n && i < 1024; i++) {
		snprintf(name, sizeof(name), "SLURM_JOB_ID_HET_GROUP_%u", i);
		if (socket_of_job(getenv(name), path, sizeof(path)) < 0)
			continue;
		r = rpc_open_path(rpcp, path, NULL);
		if (r == 0)
			return 0;
	}
	return -ENOENT;
}

/* Reads the reason why the keeper could not start. The reason is in RUNDIR_FAILED, in the directory
 * of the missing socket. */
static bool read_reason(const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *file = NULL;
	const char *slash = strrchr(path, '/');
	char text[512];
	ssize_t n;

	file = slash ? strutil_printf("%.*s/" RUNDIR_FAILED, (int)(slash - path), path) : NULL;
	if (!file)
		return false;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	error_exit(err, STAGE_EXIT_FAILED, EIO, "staging could not begin: %s", text);
	return true;
}

/* Returns whether the plugin has not changed this step's environment, which is the first thing that
 * it does. */
static bool lacks_plugin(struct error *err)
{
	const char *dir = getenv("STAGE_DATA_DIR"), *node = getenv("SLURMD_NODENAME");

	if (!dir || !node || strcmp(dir, RUNDIR_NOT_STAGED))
		return false;
	no_staging(err,
		   "slurmd on %s has not loaded the plugin stage_data.so, so the job's data is not "
		   "staged on this node; ask the administrators to restart slurmd there, "
		   "'stagectl doctor' has the details",
		   node);
	return true;
}

static int open_once(struct rpc **rpcp, bool any_component, struct error *err)
{
	char path[256];
	int r;

	r = rpc_find_socket(path, sizeof(path), err);
	if (r < 0)
		return r;
	r = rpc_open_path(rpcp, path, err);
	if (r == 0 || (any_component && open_component(rpcp, NULL) == 0))
		return 0;
	return read_reason(path, err) || lacks_plugin(err) ? -EIO : r;
}

int rpc_open(struct rpc **rpcp, struct error *err)
{
	return open_once(rpcp, false, err);
}

/* Returns whether the socket exists, but its daemon has ended. */
static bool has_died(int r)
{
	char path[256];

	return r == -ECONNREFUSED && rpc_find_socket(path, sizeof(path), NULL) == 0 &&
	       has_env(path);
}

int rpc_open_early(struct rpc **rpcp, uint64_t patience_ms, struct error *err)
{
	uint64_t until_ms = clock_ms() + patience_ms;
	int r;

	while ((r = open_once(rpcp, true, err)) < 0 && r != -EIO && !has_died(r) &&
	       clock_ms() < until_ms)
		usleep(LOOK_US);
	return r;
}

void rpc_close(struct rpc *rpc)
{
	if (!rpc)
		return;
	close(rpc->fd);
	free(rpc->path);
	free(rpc);
}

int rpc_open_again(struct rpc **rpcp, const struct rpc *rpc, struct error *err)
{
	return rpc_open_path(rpcp, rpc->path, err);
}

bool rpc_is_own(const struct rpc *rpc)
{
	uid_t uid;

	return conn_get_peer(rpc->fd, &uid, NULL) == 0 && uid == geteuid();
}

struct kv *rpc_new_request(const char *op, char *const *names, size_t n_names)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(op);
	_cleanup_(freep) char *list = NULL;
	size_t size = 1;

	if (!kv)
		return NULL;
	for (size_t i = 0; i < n_names; i++)
		size += strlen(names[i]) + 1;
	list = calloc(1, size);
	if (!list)
		return NULL;
	for (size_t i = 0; i < n_names; i++) {
		if (i > 0)
			strcat(list, ",");
		strcat(list, names[i]);
	}
	kv_set(kv, "names", list);
	return steal_ptr(kv);
}

static int gone(struct error *err)
{
	return error_exit(err, STAGE_EXIT_NO_STAGING, EPIPE,
			  "stagingd has ended before it answered. " STILL_READABLE
			  "; see 'stagectl doctor' and the system's log on this node");
}

/* Receives one packet. Returns 1: it was `done`, *codep is set; 0: another message; -EAGAIN: no
 * packet; -errno with err. */
static int handle_packet(struct rpc *rpc, const struct rpc_handler *h, int *codep,
			 struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *op;
	int r;

	r = conn_recv(rpc->fd, &kv);
	if (r == -EAGAIN)
		return r;
	if (r == 0 || r == -ECONNRESET)
		return gone(err);
	if (r < 0)
		return error_exit(err, STAGE_EXIT_NO_STAGING, -r,
				  "the process that answers at the job's socket is not stagingd");
	op = proto_get_op(kv);
	if (!op)
		return error_exit(err, STAGE_EXIT_NO_STAGING, EPROTO,
				  "stagingd speaks another version of the protocol");
	if (kv_get_u64(kv, "id", 0) != rpc->last_id)
		return 0; /* the end of an earlier answer */
	if (strcmp(op, PROTO_OP_DONE)) {
		if (h && h->on_message)
			h->on_message(h->arg, op, &kv);
		return 0;
	}
	*codep = (int)kv_get_u64(kv, "code", STAGE_EXIT_FAILED);
	if (*codep > 255)
		*codep = STAGE_EXIT_FAILED;
	if (*codep)
		error_exit(err, (enum stage_exit) * codep, EIO, "%s",
			   kv_get_or_empty(kv, "text")[0] ? kv_get(kv, "text") : "failed");
	return 1;
}

static int send_request(struct rpc *rpc, struct kv *request, struct error *err)
{
	int r;

	if (!request)
		return error_set(err, ENOMEM, "out of memory");
	kv_set_u64(request, "id", ++rpc->last_id);
	r = conn_send(rpc->fd, request);
	if (r == -EPIPE || r == -ECONNRESET)
		return gone(err);
	if (r < 0)
		return error_errno(err, -r, "send to stagingd");
	return 0;
}

static int read_answer(struct rpc *rpc, struct waitloop *loop, const struct rpc_handler *h,
		       struct error *err)
{
	struct pollfd fd = { .fd = rpc->fd, .events = POLLIN };
	uint64_t next_ms;
	int code = STAGE_EXIT_FAILED, r;

	for (;;) {
		if (output_check(err) < 0)
			return STAGE_EXIT_FAILED;
		r = waitloop_wait(loop, &fd, 1);
		switch (r) {
		case WAITLOOP_READY:
			r = handle_packet(rpc, h, &code, err);
			if (r < 0 && r != -EAGAIN)
				return (int)error_to_exit(err);
			if (r > 0)
				return code;
			break;
		case WAITLOOP_TICK:
			next_ms = h->on_tick(h->arg);
			loop->next_tick_ms = next_ms ? clock_ms() + next_ms : 0;
			break;
		case WAITLOOP_TIMEOUT:
			error_exit(err, STAGE_EXIT_TIMEOUT, ETIMEDOUT, "timed out");
			return STAGE_EXIT_TIMEOUT;
		case WAITLOOP_SIGNAL:
			error_exit(err, STAGE_EXIT_INTERRUPTED, EINTR, "interrupted");
			return STAGE_EXIT_INTERRUPTED;
		default:
			error_errno(err, -r, "poll");
			return STAGE_EXIT_FAILED;
		}
	}
}

int rpc_call(struct rpc *rpc, struct kv *request, const struct rpc_handler *h, struct error *err)
{
	_cleanup_(waitloop_close) struct waitloop loop = WAITLOOP_CLOSED;
	static const int no_signals[] = { 0 };
	struct error local = ERROR_INIT;
	int r;

	if (!err)
		err = &local;
	r = waitloop_open(&loop, h && h->deaf ? no_signals : NULL, h ? h->timeout_ms : 0);
	if (r < 0) {
		error_errno(err, -r, "signalfd");
		return STAGE_EXIT_FAILED;
	}
	if (h && h->on_tick && h->first_tick_ms)
		loop.next_tick_ms = clock_ms() + h->first_tick_ms;
	r = send_request(rpc, request, err);
	if (r < 0)
		return (int)error_to_exit(err);
	return read_answer(rpc, &loop, h, err);
}
