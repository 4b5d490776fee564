/*
 * fusectl is reached through a detached mount of our own, so that nothing needs to be mounted
 * where anybody sees it; before Linux 5.2, and if that fails, at its usual place.
 */
#include "daemon/keeper/abort.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/mountinfo.h"
#include "daemon/keeper/mounts.h"

/* The same numbers on all architectures; older headers lack them. */
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define FS_CLOEXEC 1
#define CMD_CREATE 6

int abort_open_control(void)
{
	_cleanup_(fd_closep) int fs = (int)syscall(NR_FSOPEN, "fusectl", FS_CLOEXEC);
	int fd = -1;

	if (fs >= 0 && syscall(NR_FSCONFIG, fs, CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(NR_FSMOUNT, fs, FS_CLOEXEC, 0);
	if (fd < 0)
		fd = open("/sys/fs/fuse/connections", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int abort_slot(int dirfd, unsigned slot)
{
	_cleanup_(fd_closep) int target = -1, control = -1, fd = -1;
	char name[MOUNTS_SLOT_SIZE], path[32];
	struct mountinfo m;

	mounts_slot_name(name, slot);
	target = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* Looked up now: a minor may belong to another by the time the mount is gone. */
	if (target < 0 || mountinfo_find_at(&m, dirfd, name) < 0)
		return -ENOENT;
	control = abort_open_control();
	if (control < 0)
		return control;
	snprintf(path, sizeof(path), "%u/abort", m.minor);
	fd = openat(control, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "1", 1) != 1 ? -errno : 0;
}
