/*
 * Our own parser is tried first, because starting a process would delay each job. stage-slurm has a
 * short deadline, because it is asked before the job is served. The deadline is an interval timer
 * in the child, which execve() keeps, because kernels without pidfds have no other way to wait with
 * a deadline here.
 */
#include "daemon/stagingd/node-place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/slurm/stage-slurm.h"
#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "daemon/stagingd/nodelist.h"

#define ASK_MS 300
#define MAX_SIZE 64
#define NO_PROGRAM 127

/* Executes the program in the forked child; does not return. A copy of the program is executed,
 * because it runs outside of the job's cgroups and the user must not be able to trace it. */
static void become_program(const char *program, uint32_t timeout_ms, const char *list,
			   const char *node, int out, pid_t parent)
{
	const struct itimerval time = { .it_value.tv_sec = timeout_ms / 1000,
					.it_value.tv_usec = timeout_ms % 1000 * 1000 };
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const char *const argv[] = { STAGE_SLURM_NAME, "place", node, list, NULL };
	char *const envp[] = { (char *)"PATH=" EXEC_COPY_PATH, (char *)"LANG=C.UTF-8", NULL };
	sigset_t none;

	if (!child_bind_to(parent, SIGKILL))
		_exit(0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	if (setitimer(ITIMER_REAL, &time, NULL) < 0 || null < 0 || dup2(null, 0) < 0 ||
	    dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(NO_PROGRAM);
	fd_close_from(3);
	(void)exec_copy(program, (char *const *)argv, envp, 3);
	_exit(NO_PROGRAM);
}

static int read_place(int fd, uint32_t *indexp, uint32_t *n_nodesp)
{
	_cleanup_(freep) char *text = NULL;
	unsigned index, n;
	size_t size;
	int end = 0;

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_file(fd, MAX_SIZE, &text, &size) < 0)
		return -EIO;
	if (sscanf(text, "%9u %9u\n%n", &index, &n, &end) != 2 || (size_t)end != size || index >= n)
		return -EPROTO;
	*indexp = index;
	*n_nodesp = n;
	return 0;
}

int node_place_ask(const char *program, uint32_t timeout_ms, const char *list, const char *node,
		   uint32_t *indexp, uint32_t *n_nodesp)
{
	_cleanup_(fd_closep) int out = memfd_create("place", MFD_CLOEXEC);
	const pid_t self = getpid();
	int status;
	pid_t pid;

	if (out < 0 || access(program, X_OK) < 0)
		return -ENOENT;
	pid = fork();
	if (pid == 0)
		become_program(program, timeout_ms, list, node, out, self);
	if (pid < 0)
		return -EAGAIN;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -EIO;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != STAGE_SLURM_OK)
		return -EIO;
	return read_place(out, indexp, n_nodesp);
}

int node_place_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp)
{
	const int r = nodelist_find(list, node, indexp, n_nodesp);

	if (r == -EINVAL &&
	    node_place_ask(STAGE_SLURM_PATH, ASK_MS, list, node, indexp, n_nodesp) == 0)
		return 0;
	return r;
}
