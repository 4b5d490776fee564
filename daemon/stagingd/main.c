/*
 * stagingd: the daemon of one job on one node, as the job's user.
 *
 * With --keeper it is started by stage-keeper with the descriptors of
 * common/protocol/keeper-verbs.h; with
 * --local by `stagectl run`, with the spec on fd 3 and the bound socket on fd 5.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/keeper-verbs.h"
#include "common/sandbox/data-rlimit.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/local.h"
#include "daemon/stagingd/log-ring.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/server.h"

/* Limit for buffers of clients and everything else. data-rlimit.h adds the same amount for a few
 * threads. */
#define MAX_MEMORY (128 << 20)

struct daemon {
	struct loop *loop;
	struct job *job;
	struct server *server;
	struct log_ring *ring;
	int lock_fd;
};

enum { OPT_KEEPER = 256, OPT_LOCAL, OPT_JOB, OPT_RUNDIR, OPT_WORKER, OPT_CONF, OPT_VERSION };

static const struct option options[] = {
	{ "keeper", no_argument, NULL, OPT_KEEPER },
	{ "local", no_argument, NULL, OPT_LOCAL },
	{ "job", required_argument, NULL, OPT_JOB },
	{ "rundir", required_argument, NULL, OPT_RUNDIR },
	{ "worker", required_argument, NULL, OPT_WORKER },
	{ "conf", required_argument, NULL, OPT_CONF },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int usage(void)
{
	dprintf(STDERR_FILENO, "stagingd is started by stage-keeper or stagectl run:\n"
			       "  stagingd --keeper|--local --job N --rundir DIR [--conf FILE] "
			       "[--worker PATH]\n");
	return STAGE_EXIT_USAGE;
}

/* Returns 0, or the exit status + 1. */
static int read_arguments(int argc, char **argv, struct job_options *o)
{
	bool keeper = false, job = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == OPT_KEEPER) {
			keeper = true;
		} else if (c == OPT_LOCAL) {
			o->local = true;
		} else if (c == OPT_JOB) {
			if (parse_uint32(optarg, &o->job_id) < 0)
				return usage() + 1;
			job = true;
		} else if (c == OPT_RUNDIR) {
			o->rundir = optarg;
		} else if (c == OPT_WORKER) {
			o->worker = optarg;
		} else if (c == OPT_CONF) {
			o->conf = optarg;
		} else if (c == OPT_VERSION) {
			puts("stagingd " STAGE_VERSION);
			return 1;
		} else {
			return usage() + 1;
		}
	}
	if (keeper == o->local || !o->rundir || o->rundir[0] != '/' || optind != argc ||
	    (keeper && !job))
		return usage() + 1;
	return 0;
}

static void on_change(void *arg, bool urgent)
{
	struct daemon *d = arg;

	if (d->server)
		server_notify(d->server, urgent);
}

static void on_end(void *arg)
{
	struct daemon *d = arg;

	loop_stop(d->loop);
}

static void on_signal(void *arg, int sig)
{
	struct daemon *d = arg;

	log_info("signal %d", sig);
	if (d->job)
		job_end(d->job);
}

/* Adds the time, so that lines of several nodes can be sorted. */
static void on_log(void *arg, const char *line)
{
	_cleanup_(freep) char *text = NULL;
	char time[LOG_TIME_TEXT];

	text = strutil_printf("%s %s", log_get_time(time), line);
	if (text)
		log_ring_add(arg, text);
}

static void daemon_deinit(struct daemon *d)
{
	log_hook.fn = NULL;
	server_free(d->server);
	job_free(d->job);
	loop_free(d->loop);
	log_ring_free(d->ring);
	fd_closep(&d->lock_fd);
}

static int daemon_init(struct daemon *d, const struct job_options *o, struct error *err)
{
	int r;

	r = loop_new(&d->loop);
	if (r == 0)
		r = log_ring_new(&d->ring);
	if (r == 0)
		r = loop_catch_signals(d->loop, on_signal, d);
	if (r < 0)
		return error_errno(err, -r, "start");
	log_hook = (struct log_hook){ on_log, d->ring };
	if (o->local)
		r = local_prepare(o->rundir, &d->lock_fd, err);
	if (r == 0)
		r = job_new(&d->job, d->loop, o, o->local ? -1 : KEEPER_FD_SOCKET, err);
	if (r < 0)
		return r;
	d->job->on_change = on_change;
	d->job->end.on_end = on_end;
	d->job->end.arg = d;
	d->job->arg = d;
	return 0;
}

static int serve(struct daemon *d, const struct job_options *o, struct error *err)
{
	const struct server_options so = {
		.loop = d->loop,
		.job = d->job,
		.log = d->ring,
		.fd = KEEPER_FD_LISTEN,
		.leases = o->local,
	};
	int r;

	/* The server must exist before job_start() writes the environment file, because the plugin
	 * connects as soon as that file exists. */
	r = server_new(&d->server, &so, err);
	if (r == 0)
		r = job_start(d->job, KEEPER_FD_SPEC, err);
	close(KEEPER_FD_SPEC);
	if (r < 0)
		return r;
	r = loop_run(d->loop);
	server_flush(d->server);
	return r < 0 ? error_errno(err, -r, "wait for events") : 0;
}

static void prepare_process(const struct job_options *o)
{
	static const int fds[] = { KEEPER_FD_SPEC, KEEPER_FD_SOCKET, KEEPER_FD_LISTEN };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fd_set_cloexec(fds[i], true);
	umask(077);
	file_size_limit_catch();
	if (o->local)
		setsid(); /* so the terminal's ^C reaches only the command */
	else
		data_rlimit_set_to(MAX_MEMORY, 0);
	if (chdir("/") < 0)
		log_warning("chdir /");
	log_open("stagingd", STDERR_FILENO, !o->local);
	log_set_job(o->job_id);
}

int main(int argc, char **argv)
{
	struct daemon d = { .lock_fd = -1 };
	struct error err = ERROR_INIT;
	struct job_options o = { 0 };
	int r;

	r = read_arguments(argc, argv, &o);
	if (r > 0)
		return r - 1;
	if (!o.local && geteuid() == 0) {
		dprintf(STDERR_FILENO, "stagingd does not work as root for a job\n");
		return 1;
	}
	prctl(PR_SET_NAME, "stagingd"); /* after execveat() of an fd, it is a number */
	prctl(PR_SET_DUMPABLE, 0);
	prepare_process(&o);
	r = daemon_init(&d, &o, &err);
	if (r == 0)
		r = serve(&d, &o, &err);
	if (r < 0)
		log_error("%s", err.text);
	daemon_deinit(&d);
	return r < 0 ? 1 : 0;
}
