/*
 * A record has a head whose lines have a fixed order, then a line for the node, each process and
 * each tier, then "end". A record without "end" is incomplete and is not used.
 */
#include "daemon/manager/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/util/cleanup.h"

#define VERSION 2U
#define HEAD(start)                                                                                \
	"version=%u\njob=%u\nrestart=%u\nuid=%u\ngid=%u\nboot=%" start                             \
	"s\nkeeper=%d:%llu\nending=%d\nfailed=%d\n"

void state_get_boot(char *buf)
{
	_cleanup_(fd_closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (read(fd, buf, STATE_BOOT_SIZE - 1) < STATE_BOOT_SIZE - 1)
		strcpy(buf, "-");
	buf[STATE_BOOT_SIZE - 1] = '\0';
}

bool state_is_current(const struct state *st)
{
	char boot[STATE_BOOT_SIZE];

	state_get_boot(boot);
	/* If the boot id is not known, the start times have to identify the processes. With the
	 * other answer, no process would ever be ended. */
	return !boot[1] || strcmp(boot, st->boot) == 0;
}

struct job_cgroup_job state_get_job(const struct state *st)
{
	return (struct job_cgroup_job){ st->uid, st->job_id, st->sluid };
}

struct state_proc *state_find_proc(struct state *st, pid_t pid)
{
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid == pid)
			return &st->procs[i];
	return NULL;
}

struct state_tier *state_find_tier(struct state *st, const char *path)
{
	for (size_t i = 0; i < STATE_MAX_TIERS; i++)
		if (strcmp(st->tiers[i].path, path) == 0)
			return &st->tiers[i];
	return NULL;
}

/* Opens a stream on a copy of fd. */
static FILE *open_stream(int fd, const char *mode)
{
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	FILE *f = own < 0 ? NULL : fdopen(own, mode);

	if (!f && own >= 0)
		close(own);
	return f;
}

int state_print(const struct state *st, char **textp, size_t *sizep)
{
	FILE *f = open_memstream(textp, sizep);
	int failed;

	if (!f)
		return -errno;
	fprintf(f, HEAD(""), VERSION, st->job_id, st->restart, st->uid, st->gid, st->boot,
		st->keeper.pid, (unsigned long long)st->keeper.start, st->ending, st->failed);
	if (st->node[0])
		fprintf(f, "node=%s\n", st->node);
	if (st->sluid[0])
		fprintf(f, "sluid=%s\n", st->sluid);
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid)
			fprintf(f, "proc=%d:%llu\n", st->procs[i].pid,
				(unsigned long long)st->procs[i].start);
	for (size_t i = 0; i < STATE_MAX_TIERS; i++)
		if (st->tiers[i].path[0])
			fprintf(f, "tier=%d:%s\n", st->tiers[i].as_user, st->tiers[i].path);
	fputs("end\n", f);
	failed = ferror(f);
	return fclose(f) != 0 || failed ? -ENOMEM : 0;
}

static void read_item(struct state *st, const char *line)
{
	struct state_tier *tier = state_find_tier(st, "");
	struct state_proc *p = state_find_proc(st, 0);
	unsigned long long start;
	int number, n = 0;

	if (sscanf(line, "proc=%d:%llu", &number, &start) == 2 && number > 1 && p) {
		*p = (struct state_proc){ number, start };
	} else if (sscanf(line, "tier=%d:%n/", &number, &n) == 1 && line[n] == '/' && tier &&
		   strlen(line + n) < sizeof(tier->path)) {
		tier->as_user = number;
		strcpy(tier->path, line + n);
	} else if (strncmp(line, "node=", 5) == 0 && strlen(line + 5) < sizeof(st->node)) {
		strcpy(st->node, line + 5);
	} else if (strncmp(line, "sluid=", 6) == 0 && sluid_is_valid(line + 6)) {
		strcpy(st->sluid, line + 6);
	}
}

static int read_all(FILE *f, struct state *st)
{
	_cleanup_(freep) char *line = NULL;
	unsigned long long start;
	unsigned int version;
	int ending, failed;
	size_t size = 0;

	if (fscanf(f, HEAD("36"), &version, &st->job_id, &st->restart, &st->uid, &st->gid, st->boot,
		   &st->keeper.pid, &start, &ending, &failed) != 10 ||
	    version < VERSION || !st->boot[0]) /* %s accepts a NUL as a character */
		return ferror(f) ? -EIO : -EPROTO;
	st->keeper.start = start;
	st->ending = ending;
	st->failed = failed;
	while (getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "end") == 0)
			return 0;
		read_item(st, line);
	}
	return feof(f) ? -EPROTO : -EIO;
}

int state_read(int fd, struct state *st)
{
	_cleanup_(file_closep) FILE *f = open_stream(fd, "r");
	int r;

	memset(st, 0, sizeof(*st));
	if (!f)
		return -errno;
	r = read_all(f, st);
	if (r < 0)
		memset(st, 0, sizeof(*st));
	return r;
}
