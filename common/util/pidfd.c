/* Called by number: what was built on a new glibc runs on an old kernel and the reverse. */
#include "common/util/pidfd.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int fd_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(__NR_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int fd_pidfd_kill(int pidfd, int sig)
{
	return syscall(__NR_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}
