/*
 * A process can choose its name in /proc, so its owner is checked, too: otherwise a user could
 * pretend that slurmd runs. A child that slurmd has forked has slurmd's name until it executes
 * another program. If such a child was found by mistake, its end is noticed soon, and slurmd is
 * looked for again.
 */
#include "daemon/stagingd/slurmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/parse.h"

/* Reads a file in /proc/<pid> into buf and NUL-terminates it. Returns 0 or -errno. */
static int read_file(pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

/* Debian's /usr/sbin/slurmd is a link to slurmd-wlm; the process gets this name when it executes
 * itself again (scontrol reconfigure). */
static bool is_name(const char *comm)
{
	return strcmp(comm, "slurmd\n") == 0 || strncmp(comm, "slurmd-", 7) == 0 ||
	       strcmp(comm, "psid\n") == 0;
}

bool slurmd_is(pid_t pid)
{
	char comm[32], status[1024];

	if (read_file(pid, "comm", comm, sizeof(comm)) < 0 || !is_name(comm))
		return false;
	return read_file(pid, "status", status, sizeof(status)) == 0 &&
	       strstr(status, "\nUid:\t0\t") && !strstr(status, "\nState:\tZ") &&
	       !strstr(status, "\nState:\tX");
}

pid_t slurmd_find(void)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	char comm[32];
	uint32_t pid;

	if (!dir || read_file(1, "comm", comm, sizeof(comm)) < 0)
		return -EACCES;
	while ((e = readdir(dir)))
		if (parse_uint32(e->d_name, &pid) == 0 && slurmd_is((pid_t)pid))
			return (pid_t)pid;
	return 0;
}
