/*
 * fusectl is reached through a detached mount of our own, so that nothing needs to be mounted
 * where anybody sees it; before Linux 5.2, and if that fails, at its usual place.
 *
 * Which connection a stuck process waits for is not to be seen. All with requests waiting are
 * aborted: a healthy one has them too for moments, but the job's process is being killed anyway,
 * and in practice the job with it.
 */
#include "daemon/keeper/abort.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/rundir.h"
#include "daemon/keeper/mountinfo.h"
#include "daemon/keeper/mounts.h"

/* The same numbers on all architectures; older headers lack them. */
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define FS_CLOEXEC 1
#define CMD_CREATE 6

static int open_fusectl(void)
{
	_cleanup_(fd_closep) int fs = (int)syscall(NR_FSOPEN, "fusectl", FS_CLOEXEC);
	int fd = -1;

	if (fs >= 0 && syscall(NR_FSCONFIG, fs, CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(NR_FSMOUNT, fs, FS_CLOEXEC, 0);
	if (fd < 0)
		fd = open("/sys/fs/fuse/connections", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Opens a file of the connection that is mounted there now: a minor may belong to another by the
 * time the mount is gone. */
static int open_control(int dirfd, unsigned slot, const char *file, int flags)
{
	_cleanup_(fd_closep) int control = -1;
	char name[MOUNTS_SLOT_SIZE], path[32];
	struct mountinfo m;
	int fd;

	mounts_slot_name(name, slot);
	if (mounts_lookup(dirfd, name, &m) < 0)
		return -ENOENT;
	control = open_fusectl();
	if (control < 0)
		return control;
	snprintf(path, sizeof(path), "%u/%s", m.minor, file);
	fd = openat(control, path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int abort_slot(int dirfd, unsigned slot)
{
	_cleanup_(fd_closep) int fd = open_control(dirfd, slot, "abort", O_WRONLY);

	if (fd < 0)
		return fd;
	return write(fd, "1", 1) != 1 ? -errno : 0;
}

unsigned abort_get_waiting(int dirfd, unsigned slot)
{
	_cleanup_(fd_closep) int fd = open_control(dirfd, slot, "waiting", O_RDONLY);
	char text[32] = "";

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return 0;
	return (unsigned)strtoul(text, NULL, 10);
}

int abort_parse_stuck(const char *status, uid_t uid)
{
	const char *state = strstr(status, "\nState:"), *owner = strstr(status, "\nUid:");
	const char *own = strstr(status, "\nSigPnd:"), *shared = strstr(status, "\nShdPnd:");
	unsigned long long a, b;
	unsigned u;
	char s;

	if (!state || !owner || !own || !shared || sscanf(state, " State: %c", &s) != 1 ||
	    sscanf(owner, " Uid: %u", &u) != 1 || sscanf(own, " SigPnd: %llx", &a) != 1 ||
	    sscanf(shared, " ShdPnd: %llx", &b) != 1 || u != uid)
		return -1;
	return s == 'D' && ((a | b) & 1ULL << (SIGKILL - 1));
}

struct search {
	uid_t uid;
	struct proc found;
};

static int is_stuck(pid_t pid, const char *task, uid_t uid)
{
	char path[64], status[4096];

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, task);
	if (proc_read(AT_FDCWD, path, status, sizeof(status)) < 0)
		return -1;
	return abort_parse_stuck(status, uid);
}

/* All threads: the first one of a killed process is a zombie while another is stuck. */
static int look_at(void *arg, pid_t pid)
{
	struct search *s = arg;
	_cleanup_(dir_closep) DIR *dir = NULL;
	struct dirent *e;
	char path[32];
	int stuck = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (!stuck && dir && (e = readdir(dir)))
		stuck = e->d_name[0] == '.' ? 0 : is_stuck(pid, e->d_name, s->uid);
	return stuck > 0 && proc_get(pid, &s->found) == 0;
}

int abort_look(struct abort_watch *w, int dirfd, const bool *slots, uid_t uid, uint64_t limit_ms)
{
	struct search s = { .uid = uid };
	unsigned waiting[RUNDIR_MAX_SLOTS] = { 0 }, n = 0;

	for (unsigned i = 0; i < RUNDIR_MAX_SLOTS; i++)
		if (slots[i])
			n += waiting[i] = abort_get_waiting(dirfd, i);
	if (n)
		proc_for_each(look_at, &s);
	if (s.found.pid != w->stuck.pid || s.found.start != w->stuck.start) {
		w->stuck = s.found;
		w->since_ms = clock_ms();
	}
	if (!w->stuck.pid || clock_ms() - w->since_ms < limit_ms)
		return 0;
	n = 0;
	for (unsigned i = 0; i < RUNDIR_MAX_SLOTS; i++) {
		if (!waiting[i] || abort_slot(dirfd, i) < 0)
			continue;
		log_warning("process %d can't die while it waits for mount %u: connection aborted",
			    w->stuck.pid, i);
		n++;
	}
	w->stuck = (struct proc){ 0 };
	return (int)n;
}
