#include "client/node-list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/mountinfo.h"

/* A process is identified by pid and start time. Mounts are looked up only in the kernel's tables,
 * because a user's file system could hang. If a record cannot be read, the fields are 0. */
struct node_job {
	unsigned uid, mounts, workers, tiers, failed;
	bool keeper_lives;
	unsigned long long bytes;
};

static bool is_alive(int pid, unsigned long long start)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[32], line[1024];
	unsigned long long now;
	const char *rest;
	char state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	rest = strrchr(line, ')');
	return rest &&
	       sscanf(rest + 1,
		      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		      "%*s %*s %*s %llu",
		      &state, &now) == 2 &&
	       now == start && state != 'Z';
}

static void read_record(const char *dir, struct node_job *job)
{
	_cleanup_(file_closep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	char path[PATH_MAX + 8];
	unsigned long long start;
	size_t size = 0;
	int pid;

	snprintf(path, sizeof(path), "%s/" RUNDIR_STATE, dir);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		if (sscanf(line, "keeper=%d:%llu", &pid, &start) == 2)
			job->keeper_lives = is_alive(pid, start);
		else if (sscanf(line, "proc=%d:%llu", &pid, &start) == 2)
			job->workers += is_alive(pid, start);
		else if (!strncmp(line, "tier=", 5))
			job->tiers++;
		else if (sscanf(line, "uid=%u", &job->uid) != 1)
			sscanf(line, "failed=%u", &job->failed);
	}
}

/* Returns the bytes in the tmpfs with this device number; 0 if it is not there. Another file
 * system may have been mounted since the mount table was read, and its server may never answer
 * statfs(). */
static unsigned long long count_bytes(const char *memory, unsigned major, unsigned minor)
{
	_cleanup_(fd_closep) int fd = open(memory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	struct statx st;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return 0;
	if (st.stx_dev_major != major || st.stx_dev_minor != minor || fstatfs(fd, &fs) < 0)
		return 0;
	return (unsigned long long)(fs.f_blocks - fs.f_bfree) * (unsigned long long)fs.f_frsize;
}

static void read_mounts(const char *dir, struct node_job *job)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	char memory[PATH_MAX + 4], slots[PATH_MAX + 4];
	struct mountinfo m;
	unsigned major = 0, minor = 0;
	bool is_tmpfs = false;
	size_t size = 0;

	snprintf(memory, sizeof(memory), "%s/" RUNDIR_MEMORY, dir);
	snprintf(slots, sizeof(slots), "%s/" RUNDIR_MOUNTS "/", dir);
	while (f && getline(&line, &size, f) > 0) {
		if (mountinfo_parse(&m, line) < 0)
			continue;
		job->mounts += !strncmp(m.target, slots, strlen(slots));
		if (strcmp(m.target, memory))
			continue;
		is_tmpfs = !strcmp(m.type, "tmpfs"); /* the last entry is the topmost mount */
		major = m.major;
		minor = m.minor;
	}
	if (is_tmpfs)
		job->bytes = count_bytes(memory, major, minor);
}

static int print_below(const char *top, const char *letters, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = opendir(top);
	char path[PATH_MAX];
	struct dirent *e;
	int n = 0;

	if (!dir)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", top);
	while ((e = readdir(dir))) {
		struct node_job job = { 0 };

		if (e->d_name[0] == '.' || e->d_name[strspn(e->d_name, letters)])
			continue;
		snprintf(path, sizeof(path), "%s/%s", top, e->d_name);
		read_record(path, &job);
		read_mounts(path, &job);
		printf("job=%s uid=%u keeper=%s bytes=%llu mounts=%u workers=%u tiers=%u%s\n",
		       e->d_name, job.uid, job.keeper_lives ? "alive" : "dead", job.bytes,
		       job.mounts, job.workers, job.tiers, job.failed ? " failed=1" : "");
		n++;
	}
	return n;
}

int node_list_print(struct error *err)
{
	int n = print_below(STAGE_RUN_DIR, "0123456789", err);
	int aside = n < 0 ? n : print_below(STAGE_RUN_DIR "/" RUNDIR_TRASH, "0123456789.", err);

	return aside < 0 ? aside : n + aside;
}
