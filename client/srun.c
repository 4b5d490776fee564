/*
 * The parent reads reports from the steps' output and decides; the steps' exit statuses matter only
 * if a node sent no final report (after a crash, or if the step could not be created). srun's
 * stderr is read, too, and passed on at once, so that the user sees "step creation temporarily
 * disabled". Its output after we have ended it is not useful and is dropped.
 */
#include "client/srun.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/output.h"
#include "client/report.h"
#include "client/srun-failed.h"
#include "client/srun-nodes.h"
#include "client/srun-answers.h"
#include "client/waitloop.h"
#include "common/protocol/proto.h"
#include "common/util/child-bind.h"
#include "common/util/fd.h"

#define SRUN_MAX_ARGS 160 /* twice the names of all datasets of a job, and options */
#define SRUN_END_MS 5000
/* When one node has failed, the other ones have this time to report failures. */
#define SRUN_FAILED_MS 500

struct step_stream {
	int fd; /* -1: at its end */
	char buf[2048];
	size_t size;
	bool is_cut; /* the next bytes are the rest of a line that was too long */
};

struct step {
	pid_t pid; /* 0: it has ended */
	int status;
	struct step_stream out, err;
};

struct srun {
	const struct srun_request *request;
	const struct rpc_handler *h;
	struct error *err;
	struct report_reader *reader;
	struct step *steps;
	size_t n_steps;
	uint32_t n_nodes, n_done, n_none;
	uint32_t n_interrupted; /* nodes that Slurm interrupted, as it does when a task of another
				 * node fails */
	struct srun_answers answers;
	struct srun_failed failed;
	struct waitloop *loop;
	int code; /* exit status of the first failure */
	bool ending;
};

static void exec_srun(const struct srun_request *q, uint32_t component, uint32_t n_components,
		      int out_fd, int err_fd)
{
	char self[PATH_MAX], nodes[32], tasks[32], group[32];
	const char *argv[SRUN_MAX_ARGS];
	size_t n = 0, n_env = 0;
	ssize_t len;

	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		_exit(127);
	self[len] = '\0';
	snprintf(nodes, sizeof(nodes), "--nodes=%u",
		 srun_get_component_nodes(component, n_components));
	snprintf(tasks, sizeof(tasks), "--ntasks=%u",
		 srun_get_component_nodes(component, n_components));
	snprintf(group, sizeof(group), "--het-group=%u", component);
	argv[n++] = "srun";
	argv[n++] = "--overlap";
	argv[n++] = "--mem=0";
	argv[n++] = nodes;
	argv[n++] = tasks;
	argv[n++] = "--ntasks-per-node=1";
	argv[n++] = "--cpus-per-task=1";
	argv[n++] = "--cpu-bind=none";
	argv[n++] = "--gres=none";
	argv[n++] = "--mpi=none";
	argv[n++] = "--input=none";
	argv[n++] = "--kill-on-bad-exit=1";
	argv[n++] = "--export=ALL";
	argv[n++] = "--chdir=/";
	argv[n++] = "--job-name=stagectl";
	argv[n++] = "--quiet";
	if (n_components > 1)
		argv[n++] = group;
	argv[n++] = self;
	argv[n++] = q->verb;
	argv[n++] = "--node-report";
	for (size_t i = 0; i < q->n_args && n < SRUN_MAX_ARGS - 1; i++)
		argv[n++] = q->args[i];
	argv[n] = NULL;
	for (char **e = environ; *e; e++)
		if (srun_keeps_variable(*e))
			environ[n_env++] = *e;
	environ[n_env] = NULL;
	if (dup2(out_fd, STDOUT_FILENO) < 0 || dup2(err_fd, STDERR_FILENO) < 0)
		_exit(127);
	execvp("srun", (char *const *)argv);
	fprintf(stderr, "srun: %s\n", strerror(errno));
	_exit(127);
}

static int start_step(struct srun *s, uint32_t component, uint32_t n_components,
		      const struct waitloop *loop)
{
	struct step *step = &s->steps[s->n_steps];
	_cleanup_(fd_closep) int out_w = -1;
	_cleanup_(fd_closep) int err_w = -1;
	const pid_t parent = getpid();
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return error_errno(s->err, errno, "pipe");
	step->out.fd = out[0];
	out_w = out[1];
	step->err.fd = -1;
	s->n_steps++;
	if (pipe2(err, O_CLOEXEC) < 0)
		return error_errno(s->err, errno, "pipe");
	step->err.fd = err[0];
	err_w = err[1];
	step->pid = fork();
	if (step->pid < 0) {
		step->pid = 0;
		return error_errno(s->err, errno, "fork");
	}
	if (step->pid == 0) {
		if (!child_bind_to(parent, SIGTERM))
			_exit(127);
		sigprocmask(SIG_SETMASK, waitloop_get_mask(loop), NULL);
		exec_srun(s->request, component, n_components, out_w, err_w);
	}
	return 0;
}

/* Records the first failure and waits for others, because all nodes often fail for the same reason
 * and are then named together. */
static void srun_fail(struct srun *s, int code)
{
	uint64_t until = clock_ms() + SRUN_FAILED_MS;

	if (s->code == 0)
		s->code = code;
	else
		return;
	if (!s->request->keep_going && (!s->loop->deadline_ms || s->loop->deadline_ms > until))
		s->loop->deadline_ms = until;
}

static void handle_done(struct srun *s, const char *node, const struct kv *kv)
{
	int code = (int)kv_get_u64(kv, "code", STAGE_EXIT_FAILED) & 0xff;

	srun_answers_add(&s->answers, node);
	if (code == STAGE_EXIT_INTERRUPTED) {
		s->n_interrupted++;
		return;
	}
	s->n_done++;
	if (code == STAGE_EXIT_NO_STAGING && s->request->none_ok) {
		s->n_none++;
		return;
	}
	if (code == 0)
		return;
	srun_failed_add(&s->failed, node, kv_get_or_empty(kv, "text"));
	srun_fail(s, code);
}

static void handle_report(struct srun *s, const char *line)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *node, *op;

	if (report_reader_feed(s->reader, line, &node, &kv) != 1)
		return;
	kv_set(kv, "node", node); /* must be first: it moves the strings that kv lends */
	op = proto_get_op(kv);
	if (op && !strcmp(op, PROTO_OP_DONE))
		handle_done(s, node, kv);
	else if (op && s->h->on_message)
		s->h->on_message(s->h->arg, op, &kv);
}

static void handle_noise(struct srun *s, const char *line)
{
	if (!s->ending)
		output_lines(stderr, "", line);
}

/* Reads what is there and hands out whole lines; a line longer than the buffer is cut. */
static void read_stream(struct srun *s, struct step_stream *t,
			void (*handle)(struct srun *s, const char *line))
{
	char *start = t->buf, *end;
	ssize_t n;

	n = read(t->fd, t->buf + t->size, sizeof(t->buf) - 1 - t->size);
	if (n <= 0) {
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		close(t->fd);
		t->fd = -1;
		return;
	}
	t->size += (size_t)n;
	t->buf[t->size] = '\0';
	while ((end = strchr(start, '\n'))) {
		*end = '\0';
		if (!t->is_cut)
			handle(s, start);
		t->is_cut = false;
		start = end + 1;
	}
	t->size -= (size_t)(start - t->buf);
	memmove(t->buf, start, t->size);
	if (t->size < sizeof(t->buf) - 1)
		return;
	if (!t->is_cut)
		handle(s, t->buf);
	t->is_cut = true;
	t->size = 0;
}

/* Waits for steps whose output has ended. Returns whether all steps have ended. */
static bool reap_steps(struct srun *s)
{
	bool all = true;

	for (size_t i = 0; i < s->n_steps; i++) {
		struct step *step = &s->steps[i];

		if (step->pid == 0)
			continue;
		if (step->out.fd >= 0 || step->err.fd >= 0 ||
		    waitpid(step->pid, &step->status, 0) != step->pid) {
			all = false;
			continue;
		}
		step->pid = 0;
	}
	return all;
}

static int pump(struct srun *s, struct waitloop *loop)
{
	struct pollfd fds[2 * SRUN_MAX_STEPS];
	int r;

	for (size_t i = 0; i < s->n_steps; i++) {
		fds[2 * i] = (struct pollfd){ .fd = s->steps[i].out.fd, .events = POLLIN };
		fds[2 * i + 1] = (struct pollfd){ .fd = s->steps[i].err.fd, .events = POLLIN };
	}
	r = waitloop_wait(loop, fds, 2 * s->n_steps);
	if (r != WAITLOOP_READY)
		return r;
	for (size_t i = 0; i < s->n_steps; i++) {
		if (fds[2 * i].fd >= 0 && fds[2 * i].revents)
			read_stream(s, &s->steps[i].out, handle_report);
		if (fds[2 * i + 1].fd >= 0 && fds[2 * i + 1].revents)
			read_stream(s, &s->steps[i].err, handle_noise);
	}
	return r;
}

/* Sends SIGTERM to each srun, later SIGKILL. When an srun has ended, Slurm ends the tasks of its
 * step. */
static void end_steps(struct srun *s)
{
	uint64_t until = clock_ms() + SRUN_END_MS;
	bool kill_now = false;

	s->ending = true;
	for (size_t i = 0; i < s->n_steps; i++) {
		struct step *step = &s->steps[i];

		if (step->pid)
			kill(step->pid, SIGTERM);
		if (step->out.fd >= 0)
			close(step->out.fd);
		if (step->err.fd >= 0)
			close(step->err.fd);
		step->out.fd = step->err.fd = -1;
	}
	for (size_t i = 0; i < s->n_steps; i++) {
		struct step *step = &s->steps[i];

		while (step->pid && waitpid(step->pid, &step->status, WNOHANG) == 0) {
			if (!kill_now && clock_ms() < until) {
				usleep(10000);
				continue;
			}
			kill_now = true;
			kill(step->pid, SIGKILL);
			waitpid(step->pid, &step->status, 0);
			break;
		}
		step->pid = 0;
	}
}

static void say_who_is_silent(struct srun *s)
{
	uint32_t n_silent = s->n_nodes - s->n_done - s->n_interrupted;
	char nodes[1024];

	if (s->n_done + s->n_interrupted >= s->n_nodes) {
		error_exit(s->err, STAGE_EXIT_FAILED, EIO,
			   "the step was ended before all nodes had answered; try again");
		return;
	}
	srun_answers_print_missing(&s->answers, srun_get_n_components(), nodes, sizeof(nodes));
	error_exit(
		s->err, STAGE_EXIT_FAILED, EIO,
		"srun ended before %u of %u nodes had answered%s%s; look whether they are up and "
		"have stage-data installed",
		n_silent, s->n_nodes, nodes[0] ? ": " : "", nodes);
}

/* The first line becomes the error. The other lines are printed after it. */
static void report_failures(struct srun *s)
{
	_cleanup_(freep) char *lines = srun_failed_to_lines(&s->failed);
	const char *first = lines ?: "out of memory";
	const size_t length = strcspn(first, "\n");

	error_exit(s->err, (enum stage_exit)s->code, EIO, "%.*s", (int)length, first);
	if (first[length] && first[length + 1])
		*s->request->restp = strdup(first + length + 1);
}

void srun_say_rest(const char *rest, void (*say)(const char *fmt, ...))
{
	for (; rest && *rest; rest = strchr(rest, '\n') + 1)
		say("%.*s", (int)strcspn(rest, "\n"), rest);
}

static int run_loop(struct srun *s, struct waitloop *loop)
{
	uint64_t next_ms;
	int r;

	while (!s->ending && s->n_done < s->n_nodes && !reap_steps(s)) {
		if (output_check(s->err) < 0)
			return STAGE_EXIT_FAILED;
		r = pump(s, loop);
		if (r == WAITLOOP_TICK) {
			next_ms = s->h->on_tick(s->h->arg);
			loop->next_tick_ms = next_ms ? clock_ms() + next_ms : 0;
		} else if (r == WAITLOOP_TIMEOUT && s->code) {
			break;
		} else if (r == WAITLOOP_TIMEOUT) {
			error_exit(s->err, STAGE_EXIT_TIMEOUT, ETIMEDOUT, "timed out");
			return STAGE_EXIT_TIMEOUT;
		} else if (r == WAITLOOP_SIGNAL) {
			error_exit(s->err, STAGE_EXIT_INTERRUPTED, EINTR, "interrupted");
			return STAGE_EXIT_INTERRUPTED;
		} else if (r < 0) {
			error_errno(s->err, -r, "poll");
			return STAGE_EXIT_FAILED;
		}
	}
	if (s->code) {
		report_failures(s);
		return s->code;
	}
	if (s->n_done < s->n_nodes) {
		say_who_is_silent(s);
		return STAGE_EXIT_FAILED;
	}
	if (s->n_none == s->n_nodes) {
		error_exit(s->err, STAGE_EXIT_NO_STAGING, ENOENT, "no staging on any node");
		return STAGE_EXIT_NO_STAGING;
	}
	return STAGE_EXIT_OK;
}

int srun_each_node(const struct srun_request *request, const struct rpc_handler *h,
		   struct error *err)
{
	_cleanup_(waitloop_close) struct waitloop loop = WAITLOOP_CLOSED;
	_cleanup_(report_reader_freep) struct report_reader *reader = NULL;
	_cleanup_(freep) struct step *steps = NULL;
	struct srun s = { .request = request, .h = h, .err = err };
	uint32_t n_components;
	int r = 0;

	if (!srun_get_n_nodes())
		return srun_refuse(err, STAGE_EXIT_USAGE,
				   "--all-nodes asks the nodes by srun, and this "
				   "is no Slurm job");
	r = srun_learn_n_nodes(err);
	if (r != 0)
		return r;
	s.n_nodes = srun_get_n_nodes();
	n_components = srun_get_n_components();
	if (n_components > SRUN_MAX_STEPS || request->n_args > SRUN_MAX_ARGS / 2)
		return srun_refuse(err, STAGE_EXIT_USAGE, "too many components or names");
	s.steps = steps = calloc(n_components, sizeof(*steps));
	if (!steps || report_reader_new(&reader) < 0)
		return srun_refuse(err, STAGE_EXIT_FAILED, "out of memory");
	s.reader = reader;
	if (waitloop_open(&loop, NULL, h->timeout_ms) < 0)
		return srun_refuse(err, STAGE_EXIT_FAILED, "no signalfd");
	s.loop = &loop;
	if (h->on_tick && h->first_tick_ms)
		loop.next_tick_ms = clock_ms() + h->first_tick_ms;
	for (uint32_t i = 0; i < n_components && r == 0; i++)
		r = start_step(&s, i, n_components, &loop);
	r = r < 0 ? STAGE_EXIT_FAILED : run_loop(&s, &loop);
	/* All nodes have answered: give their steps the time to end by themselves. */
	while (r == STAGE_EXIT_OK && !reap_steps(&s) && pump(&s, &loop) == WAITLOOP_READY)
		;
	end_steps(&s);
	srun_answers_deinit(&s.answers);
	srun_failed_deinit(&s.failed);
	return r;
}
