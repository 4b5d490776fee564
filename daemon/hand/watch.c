/*
 * Breaks a FUSE connection whose server hangs, before it costs the node: a reader whose request
 * the server has taken waits in D state, where SIGKILL can't reach it, and Slurm drains a node where
 * a job's process doesn't die. Writing to the connection's abort file frees it in milliseconds;
 * the files of a connection belong to its user.
 *
 * Which connection a stuck process waits for is not to be seen. All with requests waiting are
 * aborted: a healthy one has them too for moments, but the job's process is being killed anyway,
 * and in practice the job with it.
 *
 * The limit counts for the reader, from the signal on: so it is looked for often enough, and what two
 * looks may take on a busy machine is no part of the time it is given.
 */
#include "daemon/hand/hand.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/keeper-hand.h"
#include "common/log.h"
#include "common/mountinfo.h"
#include "common/rundir.h"
#include "daemon/hand/stuck.h"

#define FUSECTL HAND_FD_ANSWER
#define TICK_US 100000 /* while something is waited for */
#define IDLE_US 200000
#define SLACK_MS 500

struct look {
	unsigned minors[RUNDIR_MAX_SLOTS], n; /* of connections with requests waiting */
};

static int open_control(unsigned minor, const char *file, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "%u/%s", minor, file);
	return openat(FUSECTL, path, flags | O_CLOEXEC);
}

static bool is_waiting(unsigned minor)
{
	_cleanup_(fd_closep) int fd = open_control(minor, "waiting", O_RDONLY);
	char text[32] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strtoul(text, NULL, 10) > 0;
}

/* The kernel's tables are asked, never a mount. */
static void look_at_mounts(struct look *look, const char *slots)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mountinfo m;
	size_t size = 0;

	look->n = 0;
	while (f && look->n < RUNDIR_MAX_SLOTS && getline(&line, &size, f) > 0)
		if (mountinfo_parse(&m, line) == 0 &&
		    strncmp(m.target, slots, strlen(slots)) == 0 && is_waiting(m.minor))
			look->minors[look->n++] = m.minor;
}

static void abort_all(const struct look *look, pid_t pid)
{
	for (unsigned i = 0; i < look->n; i++) {
		_cleanup_(fd_closep) int fd = open_control(look->minors[i], "abort", O_WRONLY);

		if (fd >= 0 && write(fd, "1", 1) == 1)
			log_warning("process %d can't die while it waits for a mount: "
				    "FUSE connection %u aborted", pid, look->minors[i]);
	}
}

static void find_slots(char *buf, size_t size)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", HAND_FD_DIR);
	n = readlink(link, buf, size - sizeof("/" RUNDIR_MOUNTS "/"));
	if (n < 0)
		_exit(1);
	strcpy(buf + n, "/" RUNDIR_MOUNTS "/");
}

void hand_watch(char **argv)
{
	const uint64_t limit_ms = strtoull(argv[0], NULL, 10);
	const uint64_t wait_ms = limit_ms > 2 * SLACK_MS ? limit_ms - SLACK_MS : limit_ms / 2;
	struct stuck known = { 0 }, now = { 0 };
	uint64_t since_ms = 0;
	char slots[PATH_MAX];
	struct look look;

	log_open("stage-hand", STDERR_FILENO, 1);
	find_slots(slots, sizeof(slots));
	for (;; usleep(now.pid ? TICK_US : IDLE_US)) {
		look_at_mounts(&look, slots);
		now.pid = 0;
		if (look.n)
			stuck_find(&now, geteuid());
		if (now.pid != known.pid || now.start != known.start) {
			known = now;
			since_ms = clock_ms();
		}
		if (!now.pid || clock_ms() - since_ms < wait_ms)
			continue;
		abort_all(&look, now.pid);
		known.pid = 0;
	}
}
