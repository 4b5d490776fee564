/*
 * pidfd: processes held by a descriptor.
 */
#pragma once

#include <sys/types.h>

/* pidfd_open (5.3) / pidfd_send_signal (5.1) or -ENOSYS. */
int fd_pidfd_open(pid_t pid);
int fd_pidfd_kill(int pidfd, int sig);
