/*
 * The FUSE connections of the job's slots, and the node's processes for who watches over both.
 *
 * A connection is found by the mount that root itself made on the slot, never by a number of the
 * steward's: so a steward that somebody has taken over breaks no connection of others. No server is
 * asked for anything here.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

/* The same numbers on all architectures; older headers lack them. */
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define FS_CLOEXEC 1
#define CMD_SET_STRING 1
#define CMD_CREATE 6

/* A detached mount of our own, so that nothing needs to be mounted where anybody sees it; before
 * Linux 5.2, and if that fails, the usual place. */
static int open_kernels(const char *type, const char *place)
{
	_cleanup_(fd_closep) int fs = (int)syscall(NR_FSOPEN, type, FS_CLOEXEC);
	int fd = -1;

	/* For proc, from Linux 5.8 on: before that all mounts have the site's options. */
	(void)syscall(NR_FSCONFIG, fs, CMD_SET_STRING, "hidepid", "0", 0);
	if (syscall(NR_FSCONFIG, fs, CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(NR_FSMOUNT, fs, FS_CLOEXEC, 0);
	return fd >= 0 ? fd : open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* By whole lines and the numbers they begin with: what follows holds names that users choose. */
static int find_minor_in_table(int fd, unsigned *minorp)
{
	_cleanup_(file_closep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	const long wanted = mount_get_id(fd);
	size_t size = 0;
	long id;

	f = fopen("/proc/self/mountinfo", "re");
	while (f && getline(&line, &size, f) > 0)
		if (sscanf(line, "%ld %*d 0:%u", &id, minorp) == 2 && id == wanted)
			return 0;
	return -ENOENT;
}

/* Minor of the device that the mount has, which is the connection's name. Before Linux 5.8 FUSE
 * refuses root this number, too. */
static int find_minor(int fd, unsigned *minorp)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) < 0)
		return errno == EACCES ? find_minor_in_table(fd, minorp) : -errno;
	*minorp = st.stx_dev_minor;
	return st.stx_dev_major ? -ENOENT : 0;
}

/* A file of a slot's connection; -ENOENT: it has none. */
static int open_connection(struct keeper *k, int dirfd, int64_t slot, const char *file, int flags)
{
	const int64_t numbers[] = { slot, 0 };
	_cleanup_(fd_closep) int fd = -1;
	unsigned minor = 0;
	char path[64];
	int r;

	if (slot < 0 || slot >= RUNDIR_MAX_SLOTS)
		return -EINVAL;
	act_print_name(path, ACT_NAME_SLOT, numbers);
	fd = k->slots[slot] < 0 ? openat(dirfd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				: fcntl(k->slots[slot], F_DUPFD_CLOEXEC, 3);
	r = fd < 0 ? -errno : find_minor(fd, &minor);
	if (r < 0)
		return r;
	if (k->control_fd < 0)
		k->control_fd = open_kernels("fusectl", "/sys/fs/fuse/connections");
	snprintf(path, sizeof(path), "%u/%s", minor, file);
	r = openat(k->control_fd, path, flags | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static bool is_waiting(struct keeper *k, int dirfd, int64_t slot)
{
	_cleanup_(fd_closep) int fd = open_connection(k, dirfd, slot, "waiting", O_RDONLY);
	char text[32] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strtoul(text, NULL, 10) > 0;
}

int act_waiting(struct keeper *k, struct call *c)
{
	const uint64_t asked = (uint64_t)c->a->n[0];
	uint64_t waiting = 0;

	for (int64_t slot = 0; slot < RUNDIR_MAX_SLOTS; slot++)
		if (asked >> slot & 1 && is_waiting(k, c->dir, slot))
			waiting |= UINT64_C(1) << slot;
	c->a->n[0] = (int64_t)waiting;
	return 0;
}

int act_abort(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int fd = open_connection(k, c->dir, c->a->n[0], "abort", O_WRONLY);

	if (fd < 0)
		return fd;
	return write(fd, "1", 1) == 1 ? 0 : -errno;
}

/* An instance with options of its own, from Linux 5.8 on; before that the site's hold there, too. */
int act_open_proc(struct keeper *k, struct call *c)
{
	return act_give(c, open_kernels("proc", "/proc"));
}
