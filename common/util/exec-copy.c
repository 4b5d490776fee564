#include "common/util/exec-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/path.h"

#define MEMFD_EXEC 0x10U /* MFD_EXEC, since Linux 6.3 */

int exec_copy_find(const char *name, char *buf, size_t size)
{
	int r = -ENOENT;

	for (const char *dir = strchr(name, '/') ? "" : EXEC_COPY_PATH; r == -ENOENT;
	     dir += dir[0] == ':') {
		const size_t n = strcspn(dir, ":");

		snprintf(buf, size, "%.*s%s%s", (int)n, dir, n ? "/" : "", name);
		r = access(buf, F_OK) < 0 ? -errno : 0;
		dir += n;
		if (!*dir)
			break;
	}
	return r;
}

/* An fd, or -errno. */
static int open_program(const char *name)
{
	char path[PATH_MAX];
	int fd, r = exec_copy_find(name, path, sizeof(path));

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int check_program(int fd, off_t *sizep)
{
	struct stat st;
	char magic[2];

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return -EACCES;
	if (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
	    !memcmp(magic, "#!", sizeof(magic)))
		return -ENOEXEC;
	*sizep = st.st_size;
	return 0;
}

/* Makes a file in memory that may be executed, even if that is not the default of the system. From
 * Linux 6.14 on, its name is part of the process's name. */
static int make_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MEMFD_EXEC);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Returns a descriptor that can only be used to execute the file. The file cannot be executed while
 * a descriptor for writing is open. The file's owner could open it again only through /proc, where
 * a process that cannot be traced hides its descriptors. */
static int reopen(int fd)
{
	char path[32];
	int copy;

	if (fchmod(fd, 0111) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = open(path, O_PATH | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

static int copy_program(const char *name)
{
	_cleanup_(fd_closep) int from = open_program(name), fd = -1;
	off_t done = 0, size = 0;
	int r = from < 0 ? from : check_program(from, &size);

	if (r < 0)
		return r;
	fd = make_file(path_base(name));
	if (fd < 0)
		return fd;
	while (done < size) {
		ssize_t n = sendfile(fd, from, &done, (size_t)(size - done));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return reopen(fd);
}

int exec_copy(const char *name, char *const *argv, char *const *envp, int fd)
{
	const int program = copy_program(name);

	if (program < 0)
		return program;
	if (dup3(program, fd, O_CLOEXEC) < 0 && errno != EINVAL) /* EINVAL: program already has this
								  * number */
		return -errno;
	fd_close_from(fd + 1);
	syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
	return -errno;
}

int exec_copy_or_itself(const char *name, char *const *argv, char *const *envp, int fd)
{
	const int r = exec_copy(name, argv, envp, fd);

	if (r != -ENOEXEC && r != -EACCES)
		return r;
	execvpe(name, argv, envp);
	return -errno;
}
