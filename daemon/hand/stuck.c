#include "daemon/hand/stuck.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/parse.h"

int stuck_parse(const char *status, uid_t uid)
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

static int read_file(const char *path, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n < 0 ? 0 : n] = '\0';
	return n < 0 ? -1 : 0;
}

static int is_stuck(pid_t pid, const char *task, uid_t uid)
{
	char path[64], status[4096];

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", pid, task);
	return read_file(path, status, sizeof(status)) < 0 ? -1 : stuck_parse(status, uid);
}

/* All threads: the first one of a killed process is a zombie while another is stuck. */
static int has_stuck_thread(pid_t pid, uid_t uid)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	struct dirent *e;
	char path[32];
	int stuck = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (!stuck && dir && (e = readdir(dir)))
		stuck = e->d_name[0] == '.' ? 0 : is_stuck(pid, e->d_name, uid);
	return stuck > 0;
}

static int read_start(pid_t pid, uint64_t *startp)
{
	char path[32], line[1024], *rest;
	unsigned long long start;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_file(path, line, sizeof(line)) < 0 || !(rest = strrchr(line, ')')) ||
	    sscanf(rest + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			     "%*s %*s %*s %llu", &start) != 1)
		return -1;
	*startp = start;
	return 0;
}

void stuck_find(struct stuck *s, uid_t uid)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	uint32_t pid;

	s->pid = 0;
	while (dir && !s->pid && (e = readdir(dir)))
		if (parse_uint32(e->d_name, &pid) == 0 && has_stuck_thread((pid_t)pid, uid) &&
		    read_start((pid_t)pid, &s->start) == 0)
			s->pid = (pid_t)pid;
}
