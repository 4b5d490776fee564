/* Called by number: what was built on a new glibc runs on an old kernel and the reverse. */
#include "common/pidfd.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int fd_pidfd_open(pid_t pid)
{
#ifdef SYS_pidfd_open
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
#else
	return -ENOSYS;
#endif
}

int fd_pidfd_kill(int pidfd, int sig)
{
#ifdef SYS_pidfd_send_signal
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
#else
	return -ENOSYS;
#endif
}
