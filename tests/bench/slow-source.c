/*
 * slow-source [OPTION...] SOURCE MOUNTPOINT: shows a directory, to be read, as slowly as a loaded
 * shared file system would. Says "ready" on stdout when it is mounted, and serves until it is
 * unmounted or gets SIGTERM; then counts on stderr what it was asked for.
 *
 * A file system's servers are other machines: what stands in for them takes as little of this one
 * as it can. One thread reads the requests, lets them wait in a queue, and answers each when it is
 * due; threads that sleep in the requests took three times as much CPU, which those who asked then
 * did not have.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "tests/bench/slow-ops.h"
#include "tests/bench/slow-queue.h"

enum { DEFAULT_IN_FLIGHT = 128, MAX_SERVER_FILES = 1 << 20 };
enum { RECEIVE_AT_ONCE = 32 };

struct server {
	struct slow_view view;
	struct fuse_session *se;
	const char *source, *mountpoint;
	double numbers[16]; /* by the row of its option */
	size_t max_in_flight;
	struct slow_queue queue;
	struct fuse_buf buf;
};

static struct server server;
static volatile sig_atomic_t is_told_to_end;

enum {
	META_MS,
	READ_MS,
	STREAM_MBPS,
	TOTAL_MBPS,
	DIR_TIMEOUT,
	NAME_TIMEOUT,
	ATTR_TIMEOUT,
	IN_FLIGHT,
	CACHE
};

/* clang-format off */
static const struct { const char *name, *value, *help; double preset, max; } options[] = {
	[META_MS]      = { "meta-ms", "MS", "each metadata operation takes so long", 0, 1e5 },
	[READ_MS]      = { "read-ms", "MS", "each read, besides the bytes", 0, 1e5 },
	[STREAM_MBPS]  = { "stream-mbps", "N", "10^6 bytes a second that a thread gets from an open file; 0: no limit", 0, 1e6 },
	[TOTAL_MBPS]   = { "total-mbps", "N", "that all get together", 0, 1e6 },
	[DIR_TIMEOUT]  = { "dir-timeout", "S", "the kernel may know a directory's name and attributes for so long", 1, 1e6 },
	[NAME_TIMEOUT] = { "name-timeout", "S", "a file's name", 0, 1e6 },
	[ATTR_TIMEOUT] = { "attr-timeout", "S", "a file's attributes, which come with its name", 1, 1e6 },
	[IN_FLIGHT]    = { "in-flight", "N", "requests in flight; more wait in the kernel", DEFAULT_IN_FLIGHT, SLOW_QUEUE_MAX },
	[CACHE]        = { "cache", "open|none|keep", "pages are kept until the file is opened again, never (and no read-ahead), for ever", 0, 0 },
};
static const char *const cache_words[] = {
	[SLOW_CACHE_NONE] = "none", [SLOW_CACHE_OPEN] = "open", [SLOW_CACHE_KEEP] = "keep",
};
/* clang-format on */

static int usage(void)
{
	fprintf(stderr, "usage: slow-source [OPTION...] SOURCE MOUNTPOINT\n");
	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		fprintf(stderr, "  --%s=%s  %s", options[i].name, options[i].value,
			options[i].help);
		if (options[i].max > 0)
			fprintf(stderr, " (%g)", options[i].preset);
		fprintf(stderr, "\n");
	}
	return 2;
}

static bool parse_number(unsigned row, const char *text, double *np)
{
	char *end;

	errno = 0;
	*np = strtod(text, &end);
	return errno == 0 && end != text && *end == '\0' && *np >= 0 && *np <= options[row].max;
}

static bool parse_cache(const char *text, enum slow_cache *cachep)
{
	for (unsigned i = 0; i < ARRAY_SIZE(cache_words); i++)
		if (strcmp(text, cache_words[i]) == 0) {
			*cachep = (enum slow_cache)i;
			return true;
		}
	return false;
}

static bool parse(struct server *s, int argc, char **argv)
{
	struct option longs[ARRAY_SIZE(options) + 1] = { 0 };
	int row;

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++) {
		longs[i] = (struct option){ options[i].name, required_argument, NULL, 0 };
		s->numbers[i] = options[i].preset;
	}
	s->view.cache = SLOW_CACHE_OPEN;
	row = 0;
	for (int c; (c = getopt_long(argc, argv, "", longs, &row)) != -1;)
		if (c != 0 ||
		    !(row == CACHE ? parse_cache(optarg, &s->view.cache)
				   : parse_number((unsigned)row, optarg, &s->numbers[row])))
			return false;
	if (argc - optind != 2 || s->numbers[IN_FLIGHT] < 1)
		return false;
	s->source = argv[optind];
	s->mountpoint = argv[optind + 1];
	return true;
}

static void set_up(struct server *s)
{
	s->max_in_flight = (size_t)s->numbers[IN_FLIGHT];
	s->view.dir_timeout = s->numbers[DIR_TIMEOUT];
	s->view.name_timeout = s->numbers[NAME_TIMEOUT];
	s->view.attr_timeout = s->numbers[ATTR_TIMEOUT];
	s->view.pace.meta_ns = (int64_t)(s->numbers[META_MS] * 1e6);
	s->view.pace.read_ns = (int64_t)(s->numbers[READ_MS] * 1e6);
	s->view.pace.stream_rate = s->numbers[STREAM_MBPS] * 1e6;
	s->view.pace.total_rate = s->numbers[TOTAL_MBPS] * 1e6;
}

/* Others may read it where root serves: a stager runs as a user. */
static int mount_session(struct server *s)
{
	char text[128];
	char *argv[] = { (char *)"slow-source", (char *)"-o", text };
	struct fuse_args args = FUSE_ARGS_INIT(ARRAY_SIZE(argv), argv);

	snprintf(text, sizeof(text),
		 "ro,nosuid,nodev,default_permissions,max_read=%d,%sfsname=slow-source",
		 SLOW_MAX_READ, geteuid() == 0 ? "allow_other," : "");
	s->se = fuse_session_new(&args, &slow_ops, sizeof(slow_ops), &s->view);
	fuse_opt_free_args(&args);
	if (!s->se)
		return -EINVAL;
	if (fuse_session_mount(s->se, s->mountpoint) < 0)
		return -EINVAL;
	return sqfs_channel_attach(s->se, fuse_session_fd(s->se));
}

static void process(struct server *s, void *data, size_t size)
{
	const struct fuse_buf buf = { .mem = data, .size = size };

	fuse_session_process_buf(s->se, &buf);
}

/* What has come, as much as may wait. false: nothing more is there. */
static bool receive(struct server *s)
{
	int64_t due;
	int r;

	for (unsigned i = 0; i < RECEIVE_AT_ONCE && s->queue.n < s->max_in_flight; i++) {
		r = fuse_session_receive_buf(s->se, &s->buf);
		if (r == -EAGAIN || r == -EINTR)
			return r == -EINTR;
		if (r <= 0) {
			fuse_session_exit(s->se);
			return false;
		}
		due = slow_ops_get_due(&s->view, s->buf.mem, (size_t)r, slow_pace_now());
		if (due == 0 || slow_queue_push(&s->queue, due, s->buf.mem, (size_t)r) < 0)
			process(s, s->buf.mem, (size_t)r);
	}
	return true;
}

static void answer(struct server *s)
{
	struct slow_request *request;

	while ((request = slow_queue_pop(&s->queue, slow_pace_now()))) {
		process(s, request->data, request->size);
		free(request);
	}
}

/* Until something comes or is due, or a signal does, which has no other moment to. */
static void wait_for_more(struct server *s, bool more, const sigset_t *unblocked)
{
	const bool full = s->queue.n >= s->max_in_flight;
	struct pollfd fd = { .fd = fuse_session_fd(s->se), .events = POLLIN };
	int64_t ns = more && !full ? 0 : slow_queue_get_wait(&s->queue, slow_pace_now());
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	ppoll(&fd, !full, ns < 0 ? NULL : &ts, unblocked);
}

static void end(int sig)
{
	is_told_to_end = 1;
}

static void catch_signals(sigset_t *unblocked)
{
	const struct sigaction action = { .sa_handler = end };
	sigset_t set;

	sigemptyset(&set);
	for (const int *i = (const int[]){ SIGTERM, SIGINT, SIGHUP, 0 }; *i; i++) {
		sigaddset(&set, *i);
		sigaction(*i, &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &set, unblocked);
}

static int serve(struct server *s)
{
	const struct slow_pace *p = &s->view.pace;
	sigset_t unblocked;

	catch_signals(&unblocked);
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (fcntl(fuse_session_fd(s->se), F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	printf("ready\n");
	fflush(stdout);
	while (!is_told_to_end && !fuse_session_exited(s->se)) {
		bool more = receive(s);

		answer(s);
		wait_for_more(s, more, &unblocked);
	}
	fprintf(stderr,
		"slow-source: %llu metadata operations, %llu reads, %.1f MB, at most %zu in "
		"flight\n",
		(unsigned long long)p->n_meta, (unsigned long long)p->n_reads,
		(double)p->bytes / 1e6, s->queue.max_n);
	return 0;
}

static int run(struct server *s)
{
	struct rlimit files = { .rlim_cur = MAX_SERVER_FILES, .rlim_max = MAX_SERVER_FILES };
	int r;

	if (setrlimit(RLIMIT_NOFILE, &files) < 0 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	s->view.root = open(s->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->view.root < 0)
		return -errno;
	r = slow_view_init(&s->view);
	if (r < 0)
		return r;
	r = mount_session(s);
	if (r == 0)
		r = serve(s);
	if (s->se) {
		fuse_session_unmount(s->se);
		fuse_session_destroy(s->se);
	}
	slow_queue_deinit(&s->queue);
	slow_view_deinit(&s->view);
	free(s->buf.mem);
	close(s->view.root);
	return r;
}

int main(int argc, char **argv)
{
	int r;

	if (!parse(&server, argc, argv))
		return usage();
	set_up(&server);
	r = run(&server);
	if (r < 0)
		fprintf(stderr, "slow-source: %s at %s: %s\n", server.source, server.mountpoint,
			strerror(-r));
	return r < 0;
}
