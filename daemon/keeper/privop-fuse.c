/*
 * Operations on the FUSE connections of the job's slots, and on the node's processes, for the
 * manager that watches both. A connection is found by the mount that root itself made on the slot,
 * never by a number from the manager. So an attacker in the manager cannot abort the connections of
 * others. No function here sends a request to a FUSE server.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

/* The same numbers on all architectures; older headers lack them. */
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define FS_CLOEXEC 1
#define CMD_SET_STRING 1
#define CMD_CREATE 6

/* Opens a kernel file system by a detached mount of our own, so that it need not be mounted in a
 * visible place. Before Linux 5.2, or if this fails, opens the usual place. */
static int open_kernels(const char *type, const char *place)
{
	_cleanup_(fd_closep) int fs = (int)syscall(NR_FSOPEN, type, FS_CLOEXEC);
	int fd = -1;

	/* This is for proc, from Linux 5.8 on. Before that, all mounts of proc have the site's
	 * options. */
	(void)syscall(NR_FSCONFIG, fs, CMD_SET_STRING, "hidepid", "0", 0);
	if (syscall(NR_FSCONFIG, fs, CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(NR_FSMOUNT, fs, FS_CLOEXEC, 0);
	return fd >= 0 ? fd : open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Finds the device number of a mount. Only the numbers at the beginning of each line are parsed,
 * because users choose names in the rest of a line. No connection has the number 0. statx() is not
 * used: FUSE refuses root's requests for an inode, before Linux 5.8 even for the device. */
static unsigned find_minor(long wanted)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	unsigned minor;
	size_t size = 0;
	long id;

	while (f && getline(&line, &size, f) > 0)
		if (sscanf(line, "%ld %*d 0:%u", &id, &minor) == 2 && id == wanted)
			return minor;
	return 0;
}

struct slot *slot_get(struct keeper *k, const struct privop *a)
{
	if (a->name != PRIVOP_NAME_SLOT || a->n[0] < 0 || a->n[0] >= RUNDIR_MAX_SLOTS)
		return NULL;
	return &k->slots[a->n[0]];
}

void slot_open(struct slot *s, const struct call *c)
{
	if (s->fd >= 0)
		return;
	s->fd = openat(c->dir, c->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	s->id = mount_get_id(s->fd);
	s->minor = s->fd < 0 ? 0 : find_minor(s->id);
}

/* Opens a file of the connection that belongs to the slot in the privileged operation. */
static int open_connection(struct keeper *k, const struct call *c, const char *file, int flags)
{
	struct slot *s = slot_get(k, c->a);
	char path[32];

	errno = EINVAL;
	if (!s)
		return -1;
	slot_open(s, c);
	if (k->control_fd < 0)
		k->control_fd = open_kernels("fusectl", "/sys/fs/fuse/connections");
	snprintf(path, sizeof(path), "%u/%s", s->minor, file);
	return openat(k->control_fd, path, flags | O_CLOEXEC);
}

/* Attack: the manager learns how many requests wait, of a slot of this job only. */
int privop_open_waiting(struct keeper *k, struct call *c)
{
	return privop_give(c, open_connection(k, c, "waiting", O_RDONLY));
}

/* Attack: the manager breaks a mount of this job. It cannot name another connection. */
int privop_abort(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = open_connection(k, c, "abort", O_WRONLY);

	return fd < 0 || write(fd, "1", 1) != 1 ? -errno : 0;
}

/* Opens a proc file system without hidepid=, from Linux 5.8 on. Before that, the site's options
 * apply to it, too. Attack: the manager reads the command lines of all users. It cannot write,
 * because the files of other users' processes are checked against its own uid. */
int privop_open_proc(struct keeper *k, struct call *c)
{
	return privop_give(c, open_kernels("proc", "/proc"));
}
