#include "client/run-cleaner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd.h"
#include "client/run-dir.h"
#include "client/step-id.h"
#include "common/config/spec.h"
#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/protocol/keys.h"
#include "common/protocol/kv.h"
#include "common/protocol/rundir.h"
#include "common/util/child-bind.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define LOG_NAME "log"
#define FIRST_FREE_FD 16
#define MIN_FDS 64

/* Uses the names of the node and of the step's nodes; a run that srun has not started has this
 * node only. */
static struct kv *make_spec(const char *spec)
{
	const char *node = getenv("SLURMD_NODENAME"), *nodes = getenv("SLURM_STEP_NODELIST");
	const char *n_nodes = getenv("SLURM_STEP_NUM_NODES");
	bool in_step = step_id_is_of_srun(getenv("SLURM_STEP_ID")) && nodes && n_nodes;
	struct kv *kv = NULL;
	char host[256] = "";

	if (kv_new(&kv) < 0)
		return NULL;
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (!node || !node[0])
		node = host;
	kv_set(kv, SPEC_KEY_SPEC, spec);
	kv_set(kv, SPEC_KEY_NODE, node);
	kv_set(kv, SPEC_KEY_NODELIST, in_step ? nodes : node);
	kv_set(kv, SPEC_KEY_N_NODES, in_step ? n_nodes : "1");
	kv_set(kv, SPEC_KEY_PARTITION, getenv("SLURM_JOB_PARTITION") ?: "");
	kv_set(kv, SPEC_KEY_RESTART, getenv("SLURM_RESTART_COUNT") ?: "0");
	kv_set(kv, SPEC_KEY_ARRAY_TASK, getenv("SLURM_ARRAY_TASK_ID") ?: "0");
	return kv;
}

static int make_spec_fd(const char *spec, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = make_spec(spec);
	_cleanup_(fd_closep) int fd = -1;
	const void *data;
	size_t size;
	int r;

	if (!kv || kv_get_data(kv, &data, &size) != 0)
		return error_set(err, ENOMEM, "the value is too big");
	fd = memfd_create("stage-spec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return error_errno(err, errno, "memfd");
	r = fd_write_all(fd, data, size);
	if (r < 0)
		return error_errno(err, -r, "memfd");
	if (lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return error_errno(err, errno, "seal the spec");
	return steal_fd(&fd);
}

/* Executes stagingd. Does not return. */
static void exec_daemon(const char *daemon, const struct run_dir *d, uint32_t job_id, int spec_fd,
			int listen_fd, pid_t parent)
{
	char job[16];
	int spec, sock;

	if (!child_bind_to(parent, CLEANER_SIGNAL_DIED))
		_exit(126);
	snprintf(job, sizeof(job), "%u", job_id);
	spec = fcntl(spec_fd, F_DUPFD, FIRST_FREE_FD);
	sock = fcntl(listen_fd, F_DUPFD, FIRST_FREE_FD);
	if (spec < 0 || sock < 0 || dup2(spec, KEEPER_FD_SPEC) < 0 ||
	    dup2(sock, KEEPER_FD_LISTEN) < 0) {
		fprintf(stderr, "descriptors of stagingd: %s\n", strerror(errno));
		_exit(126);
	}
	close(KEEPER_FD_SOCKET);
	fd_close_from(KEEPER_FD_LISTEN + 1);
	if (cmd_get_conf())
		execl(daemon, "stagingd", "--local", "--job", job, "--rundir", d->path, "--conf",
		      cmd_get_conf(), (char *)NULL);
	else
		execl(daemon, "stagingd", "--local", "--job", job, "--rundir", d->path,
		      (char *)NULL);
	fprintf(stderr, "%s: %s\n", daemon, strerror(errno));
	_exit(127);
}

/*
 * Detaches the cleaner: stdin and stdout become /dev/null, and stderr a file in the run directory.
 * A signal for the command may be sent to all processes below a task (Slurm's proctrack/cgroup
 * signals only the task itself; systemd signals all processes). Such a signal is not meant for the
 * cleaner, so the cleaner ignores it. stagingd and its workers inherit this; they end after the
 * last lease.
 */
static void detach(const struct run_dir *d, int report_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log = openat(d->fd, LOG_NAME,
			 O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	setsid();
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(log >= 0 ? log : null, 2) < 0 || chdir("/") < 0) {
		dprintf(report_fd, "detach: %s\n", strerror(errno));
		_exit(126);
	}
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
}

/* Sends the end of the log to the process that started the cleaner. */
static void report(const struct run_dir *d, int report_fd)
{
	_cleanup_(fd_closep) int fd = openat(d->fd, LOG_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[400];
	ssize_t n;

	if (fd < 0 || lseek(fd, -(off_t)sizeof(text), SEEK_END) < 0)
		lseek(fd, 0, SEEK_SET);
	n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
	if (n > 0)
		fd_write_all(report_fd, text, (size_t)n);
}

/* Runs the cleaner. Does not return. lock_fd holds the lock until the process ends. */
static void mind(const char *daemon, struct run_dir *d, uint32_t job_id, int spec_fd, int listen_fd,
		 int report_fd)
{
	const pid_t self = getpid();
	int status = 0;
	pid_t pid;

	prctl(PR_SET_NAME, "stagectl-clean");
	fd_raise_limit();
	keys_forget_env(); /* the command keeps the keys; stagingd asks for them when it needs
			    * them */
	signal(SIGPIPE, SIG_IGN);
	detach(d, report_fd);
	pid = fork();
	if (pid == 0)
		exec_daemon(daemon, d, job_id, spec_fd, listen_fd, self);
	if (pid < 0) {
		status = errno;
		dprintf(STDERR_FILENO, "%s: fork: %s\n", daemon, strerror(status));
	}
	close(spec_fd);
	close(listen_fd);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		report(d, report_fd);
	close(report_fd);
	run_dir_remove(d, NULL);
	_exit(0);
}

static int check_limit(struct error *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max >= MIN_FDS)
		return 0;
	return error_exit(err, STAGE_EXIT_NO_STAGING, EMFILE,
			  "the limit of open files (ulimit -Hn) is %llu, and stagingd needs %d",
			  (unsigned long long)limit.rlim_max, MIN_FDS);
}

int run_cleaner_start(struct run_dir *d, uint32_t job_id, const char *spec, int *report_fdp,
		      struct error *err)
{
	_cleanup_(fd_closep) int spec_fd = -1;
	_cleanup_(fd_closep) int listen_fd = -1;
	_cleanup_(fd_closep) int report_w = -1;
	_cleanup_(fd_closep) int report_r = -1;
	int pipe_fds[2];
	char daemon[PATH_MAX], tmp[PATH_MAX];
	pid_t pid;

	if (cmd_get_helper(daemon, sizeof(daemon), "stagingd") < 0 || access(daemon, X_OK) < 0)
		return error_errno(err, errno, "%s", daemon);
	if (check_limit(err) < 0)
		return -EMFILE;
	spec_fd = make_spec_fd(spec, err);
	if (spec_fd < 0)
		return spec_fd;
	if (snprintf(tmp, sizeof(tmp), "%s/" RUNDIR_SOCK ".tmp", d->path) >= (int)sizeof(tmp))
		return error_set(err, ENAMETOOLONG, "%s is too long", d->path);
	listen_fd = conn_listen(tmp, err);
	if (listen_fd < 0)
		return listen_fd;
	/* The socket listens before it gets its name, so a client that sees it can connect. */
	if (renameat(d->fd, RUNDIR_SOCK ".tmp", d->fd, RUNDIR_SOCK) < 0)
		return error_errno(err, errno, "rename %s", tmp);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	report_r = pipe_fds[0];
	report_w = pipe_fds[1];
	pid = fork();
	if (pid < 0)
		return error_errno(err, errno, "fork");
	if (pid == 0)
		mind(daemon, d, job_id, spec_fd, listen_fd, report_w);
	close(steal_fd(&d->lock_fd));
	*report_fdp = steal_fd(&report_r);
	return 0;
}
