/*
 * slow-source [OPTION...] SOURCE MOUNTPOINT: shows a directory, to be read, as slowly as a loaded
 * shared file system would. Says "ready" on stdout when it is mounted, and serves until it is
 * unmounted or gets SIGTERM; then counts on stderr what it was asked for.
 *
 * Its threads sleep in the requests, so there are many. They share one descriptor: libfuse's own
 * loop makes a thread for nearly each request.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "common/cleanup.h"
#include "daemon/worker/sqfs-channel.h"
#include "tests/bench/slow-ops.h"

enum {
	DEFAULT_THREADS = 128,
	MAX_THREADS = 1024,
	STACK_SIZE = 128 << 10,
	MAX_SERVER_FILES = 1 << 20
};
enum { WAKE_SIGNAL = SIGUSR2, ENDED_SIGNAL = SIGUSR1, WAKE_MS = 5 };

struct server {
	struct slow_view view;
	struct fuse_session *se;
	const char *source, *mountpoint;
	double numbers[16]; /* by the row of its option */
	unsigned n_threads;
	pthread_t threads[MAX_THREADS];
	atomic_uint n_running;
};

static struct server server;

enum {
	META_MS,
	READ_MS,
	STREAM_MBPS,
	TOTAL_MBPS,
	DIR_TIMEOUT,
	NAME_TIMEOUT,
	ATTR_TIMEOUT,
	THREADS,
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
	[THREADS]      = { "threads", "N", "requests in flight", DEFAULT_THREADS, MAX_THREADS },
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
	if (argc - optind != 2 || s->numbers[THREADS] < 1)
		return false;
	s->source = argv[optind];
	s->mountpoint = argv[optind + 1];
	return true;
}

static void set_up(struct server *s)
{
	s->n_threads = (unsigned)s->numbers[THREADS];
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

static void *thread_main(void *arg)
{
	struct server *s = arg;
	struct fuse_buf buf = { .mem = NULL };
	int r;

	prctl(PR_SET_TIMERSLACK, 1UL);
	while (!fuse_session_exited(s->se)) {
		r = fuse_session_receive_buf(s->se, &buf);
		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r <= 0)
			break;
		fuse_session_process_buf(s->se, &buf);
	}
	free(buf.mem);
	if (atomic_fetch_sub(&s->n_running, 1) == 1)
		kill(getpid(), ENDED_SIGNAL);
	return NULL;
}

static void ignore_signal(int sig)
{
}

static unsigned start_threads(struct server *s)
{
	struct sigaction action = { .sa_handler = ignore_signal };
	pthread_attr_t attr;
	unsigned n;

	sigaction(WAKE_SIGNAL, &action, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	atomic_store(&s->n_running, s->n_threads);
	for (n = 0; n < s->n_threads; n++)
		if (pthread_create(&s->threads[n], &attr, thread_main, s) != 0)
			break;
	pthread_attr_destroy(&attr);
	atomic_fetch_sub(&s->n_running, s->n_threads - n);
	return n;
}

/* The signal may come just before a read or a sleep: it is repeated. */
static void end_threads(struct server *s, unsigned n)
{
	const struct timespec pause = { .tv_nsec = WAKE_MS * 1000000L };

	fuse_session_exit(s->se);
	while (atomic_load(&s->n_running) > 0) {
		for (unsigned i = 0; i < n; i++)
			pthread_kill(s->threads[i], WAKE_SIGNAL);
		nanosleep(&pause, NULL);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(s->threads[i], NULL);
}

static int serve(struct server *s)
{
	const struct slow_pace *p = &s->view.pace;
	sigset_t set;
	unsigned n;
	int sig;

	sigemptyset(&set);
	for (const int *i = (const int[]){ SIGTERM, SIGINT, SIGHUP, ENDED_SIGNAL, 0 }; *i; i++)
		sigaddset(&set, *i);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	n = start_threads(s);
	if (n == 0)
		return -EAGAIN;
	printf("ready\n");
	fflush(stdout);
	sigwait(&set, &sig);
	fuse_session_unmount(s->se);
	end_threads(s, n);
	fprintf(stderr,
		"slow-source: %llu metadata operations, %llu reads, %.1f MB, at most %u in "
		"flight\n",
		(unsigned long long)p->n_meta, (unsigned long long)p->n_reads,
		(double)p->bytes / 1e6, p->max_waiting);
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
	slow_view_deinit(&s->view);
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
