/*
 * /proc/self/cgroup names the caller's groups: "0::/path" is v2, "7:memory:/path" is v1. Limits are
 * inherited, so the walk goes up to the root and keeps the group with the least room. In v1, a
 * limit near 2^63 means no limit. The memory that a group uses includes the pages of all files that
 * were read in it, which the kernel frees when memory is needed. The kernel counts them separately.
 * Pages of a tmpfs, which cannot be freed, are not in that count.
 */
#include "common/util/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

#define MEMORY_NO_LIMIT (1ULL << 60)
#define MEMORY_MAX_FILE 65536
#define MAX_CPUS 8192 /* the maximum of Linux on x86-64 */

static char *read_file(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *data;
	size_t size;

	if (fd < 0 || fd_read_file(fd, MEMORY_MAX_FILE, &data, &size) < 0)
		return NULL;
	return data;
}

static int find_kib(const char *data, const char *key, uint64_t *bytesp)
{
	const char *line = strstr(data, key);
	unsigned long long kib;

	if (!line || sscanf(line + strlen(key), " %llu kB", &kib) != 1)
		return -ENODATA;
	*bytesp = (uint64_t)kib * 1024;
	return 0;
}

int memory_read_node(uint64_t *totalp, uint64_t *availablep)
{
	_cleanup_(freep) char *data = read_file("/proc/meminfo");
	int r;

	if (!data)
		return -ENODATA;
	r = find_kib(data, "MemTotal:", totalp);
	if (r == 0)
		r = find_kib(data, "MemAvailable:", availablep);
	return r;
}

static int read_number(const char *dir, const char *name, uint64_t *valuep)
{
	char path[4096];
	_cleanup_(freep) char *data = NULL;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	data = read_file(path);
	if (!data)
		return -ENOENT;
	data[strcspn(data, "\n")] = '\0';
	return parse_uint64(data, valuep); /* "max" is not a number */
}

struct cgroup_kind {
	const char *root, *limit, *used;
	const char *files[2]; /* lines of memory.stat; they include the groups below */
};

static const struct cgroup_kind kind_v1 = { "/sys/fs/cgroup/memory",
					    "memory.limit_in_bytes",
					    "memory.usage_in_bytes",
					    { "total_inactive_file ", "total_active_file " } };
static const struct cgroup_kind kind_v2 = {
	"/sys/fs/cgroup", "memory.max", "memory.current", { "inactive_file ", "active_file " }
};

static uint64_t read_cached(const char *dir, const struct cgroup_kind *kind)
{
	_cleanup_(freep) char *path = NULL, *data = NULL;
	unsigned long long value;
	uint64_t sum = 0;

	path = strutil_printf("%s/memory.stat", dir);
	data = path ? read_file(path) : NULL;
	for (const char *line = data; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		for (size_t i = 0; i < ARRAY_SIZE(kind->files); i++)
			if (!strncmp(line, kind->files[i], strlen(kind->files[i])) &&
			    sscanf(line + strlen(kind->files[i]), "%llu", &value) == 1)
				sum += value;
	}
	return sum;
}

/* Reads the used memory without the file pages that can be freed. */
static int read_used(const char *dir, const struct cgroup_kind *kind, uint64_t *usedp)
{
	int r = read_number(dir, kind->used, usedp);
	uint64_t cached;

	if (r < 0)
		return r;
	cached = read_cached(dir, kind);
	*usedp = *usedp > cached ? *usedp - cached : 0;
	return 0;
}

/* Returns the path of the caller's group, a part of data, cut at the end of its line. */
static char *find_group(char *data, const struct cgroup_kind **kindp)
{
	char *save = NULL, *v2 = NULL;

	for (char *line = strtok_r(data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		if (!strcmp(controllers + 1, "memory")) {
			*kindp = &kind_v1;
			return path;
		}
		if (!controllers[1])
			v2 = path;
	}
	*kindp = &kind_v2;
	return v2;
}

int memory_read_cgroup(uint64_t *limitp, uint64_t *usedp)
{
	_cleanup_(freep) char *data = read_file("/proc/self/cgroup");
	const struct cgroup_kind *kind;
	uint64_t best = MEMORY_NO_LIMIT, limit, used;
	char dir[4096], *path;

	path = data ? find_group(data, &kind) : NULL;
	if (!path || snprintf(dir, sizeof(dir), "%s%s", kind->root, path) >= (int)sizeof(dir))
		return -ENOENT;
	while (strlen(dir) >= strlen(kind->root)) {
		if (read_number(dir, kind->limit, &limit) == 0 && limit < MEMORY_NO_LIMIT &&
		    read_used(dir, kind, &used) == 0 && (limit > used ? limit - used : 0) < best) {
			best = limit > used ? limit - used : 0;
			*limitp = limit;
			*usedp = used;
		}
		*strrchr(dir, '/') = '\0';
	}
	return best < MEMORY_NO_LIMIT ? 0 : -ENOENT;
}

int memory_read_fs(const char *path, uint64_t *bytesp)
{
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return -errno;
	*bytesp = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}

unsigned memory_count_cpus(void)
{
	cpu_set_t sets[MAX_CPUS / CPU_SETSIZE];
	int n;

	/* EINVAL if the kernel's set is larger than the caller's: sched_setaffinity(2) */
	if (sched_getaffinity(0, sizeof(sets), sets) < 0)
		return 1;
	n = CPU_COUNT_S(sizeof(sets), sets);
	return n > 0 ? (unsigned)n : 1;
}
