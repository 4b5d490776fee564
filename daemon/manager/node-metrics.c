/*
 * The sums are an array of numbers in a file of root, which one process at a time may change. So
 * nothing has to be parsed, not even the text that was written last. stage-helper writes the text
 * in a separate process, because this may take long. The text is renamed to its final name when it
 * is complete, so a process that is killed before leaves the old text.
 */
#include "daemon/manager/node-metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/protocol/keeper-verbs.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/manager.h"

#define NODE_METRICS_MS 30000 /* many managers may end at the same time and wait for each other */
#define NODE_METRICS_DEATH_MS 2000 /* an epilog may wait for this */
#define POLL_US 10000

static int lock(int fd, uint64_t deadline_ms)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || clock_ms() >= deadline_ms)
			return -errno;
		usleep(POLL_US);
	}
	return 0;
}

/* The state of the node. AS_BEFORE: the value is not known and does not change. */
#define AS_BEFORE UINT64_MAX

struct node {
	uint64_t breaker_open, leftovers;
};

static const struct node node_as_before = { AS_BEFORE, AS_BEFORE };

static void set_state(uint64_t *sum, uint64_t before, uint64_t now)
{
	*sum = now == AS_BEFORE ? before : now;
}

/* A sum stays below 2^63, whatever jobs report: it wraps around to 0. */
static int node_metrics_write_sums(int fd, const uint64_t *counts, const struct node *node)
{
	uint64_t sums[COUNT_N] = { 0 }, breaker_open, leftovers;

	if (pread(fd, sums, sizeof(sums), 0) < 0)
		return -errno;
	breaker_open = sums[COUNT_BREAKER_OPEN];
	leftovers = sums[COUNT_LEFTOVERS];
	for (size_t i = 0; i < COUNT_N; i++)
		sums[i] = (sums[i] + counts[i]) & INT64_MAX;
	set_state(&sums[COUNT_BREAKER_OPEN], breaker_open, node->breaker_open);
	set_state(&sums[COUNT_LEFTOVERS], leftovers, node->leftovers);
	return privops_write(PRIVOP_DIR_RUN, PRIVOP_FILE_METRICS, sums, sizeof(sums));
}

/* Root replaces fd 3 of this task by the new file. */
static int write_text(int sums, uint64_t deadline_ms)
{
	const struct helper h = { .argv = { "stage-helper", "metrics", NULL },
				  .system = true,
				  .dir = sums };
	struct privops_spawn spawn;
	pid_t pid;
	int r;

	helper_prepare(&h, &spawn);
	spawn.fds[0] = sums;
	pid = privops_spawn(&spawn, NULL);
	r = pid < 0 ? pid : privops_go(true);
	if (r == 0)
		r = privops_wait(pid, deadline_ms);
	if (r == 0 || r == -ETIMEDOUT)
		return r;
	return r < -KEEPER_EXIT_EXEC ? r + KEEPER_EXIT_EXEC : -EIO; /* may contain an errno */
}

static int replace(int sums, uint64_t deadline_ms)
{
	int r = privops_do_numbers(PRIVOP_TEXT, 0, 0, 0);

	if (r == 0)
		r = write_text(sums, deadline_ms);
	return r < 0 ? r : privops_do_numbers(PRIVOP_TEXT, 1, 0, 0);
}

static void add_to_node(const char *path, const uint64_t *counts, const struct node *node,
			uint64_t deadline_ms)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(false, NULL), sums = -1;
	/* Creates the file if it is missing. */
	int r = base < 0 ? base : privops_write(PRIVOP_DIR_RUN, PRIVOP_FILE_METRICS, "", 0);

	if (r == 0)
		r = sums = privops_open(PRIVOP_OPEN_FILE, PRIVOP_DIR_RUN, PRIVOP_FILE_METRICS);
	if (r >= 0)
		r = lock(sums, deadline_ms);
	if (r == 0)
		r = node_metrics_write_sums(sums, counts, node);
	if (r == 0)
		r = replace(sums, deadline_ms);
	if (r < 0)
		log_warning("metrics: %s: %s%s", path, strerror(-r),
			    r == -EPERM
				    ? "; its directory must be root's and writable by nobody else"
				    : "");
}

void node_metrics_add(struct manager *k)
{
	if (k->site.metrics[0] != '/')
		return;
	k->counts[COUNT_JOBS] = 1;
	k->counts[COUNT_KEEPER_DEATHS] = 0; /* a user's daemon must not set this */
	k->counts[COUNT_JOBS_NOT_SET_UP] = k->st.failed;
	add_to_node(k->site.metrics, k->counts, &node_as_before, clock_ms() + NODE_METRICS_MS);
}

void node_metrics_add_death(const struct helper_site *site, bool opened)
{
	const uint64_t counts[COUNT_N] = { [COUNT_KEEPER_DEATHS] = 1 };
	const struct node node = { opened ? 1 : AS_BEFORE, AS_BEFORE };

	if (site->metrics[0] == '/')
		add_to_node(site->metrics, counts, &node, clock_ms() + NODE_METRICS_DEATH_MS);
}

void node_metrics_set_reaped(const struct helper_site *site, bool closed, unsigned n_leftovers)
{
	const uint64_t counts[COUNT_N] = { 0 };
	const struct node node = { closed ? 0 : AS_BEFORE, n_leftovers };

	if (site->metrics[0] == '/')
		add_to_node(site->metrics, counts, &node, clock_ms() + NODE_METRICS_DEATH_MS);
}
