/*
 * Lists are one value each, "slot:minor:mnt_id,…" and "pid:start,…", because a kv has fewer
 * fields than a job can have processes. A tier is "by_root:inode:/path".
 */
#include "daemon/keeper/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/kv.h"

#define STATE_TMP RUNDIR_STATE ".tmp"

void state_get_boot(char *buf)
{
	ssize_t n = proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", buf, STATE_BOOT_SIZE);

	buf[n < 0 ? 0 : strcspn(buf, "\n")] = '\0';
}

bool state_is_current(const struct state *st)
{
	char boot[STATE_BOOT_SIZE];

	state_get_boot(boot);
	return boot[0] && strcmp(boot, st->boot) == 0;
}

struct proc *state_add_proc(struct state *st, const struct proc *p)
{
	for (size_t i = 0; i < STATE_MAX_PROCS; i++) {
		if (st->procs[i].pid)
			continue;
		st->procs[i] = *p;
		return &st->procs[i];
	}
	return NULL;
}

void state_remove_proc(struct state *st, pid_t pid)
{
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid == pid)
			st->procs[i] = (struct proc){ 0 };
}

struct state_tier *state_add_tier(struct state *st)
{
	for (size_t i = 0; i < STATE_MAX_TIERS; i++)
		if (!st->tiers[i].path[0])
			return &st->tiers[i];
	return NULL;
}

static char *procs_to_string(const struct state *st)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char *text = NULL;
	size_t size;

	f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid)
			fprintf(f, "%d:%llu,", st->procs[i].pid,
				(unsigned long long)st->procs[i].start);
	fclose(steal_ptr(f));
	return text;
}

static char *slots_to_string(const struct state *st)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char *text = NULL;
	size_t size;

	f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	for (size_t i = 0; i < RUNDIR_MAX_SLOTS; i++)
		if (st->slots[i].used)
			fprintf(f, "%zu:%u:%llu,", i, st->slots[i].minor,
				(unsigned long long)st->slots[i].mnt_id);
	fclose(steal_ptr(f));
	return text;
}

int state_write(int dirfd, const struct state *st)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *procs = procs_to_string(st);
	_cleanup_(freep) char *slots = slots_to_string(st);
	const void *data;
	char key[16];
	size_t size;
	int r;

	if (!procs || !slots || kv_new(&kv) < 0)
		return -ENOMEM;
	kv_set_u64(kv, "version", 1);
	kv_set_u64(kv, "job", st->job_id);
	kv_set_u64(kv, "restart", st->restart);
	kv_set_u64(kv, "uid", st->uid);
	kv_set_u64(kv, "gid", st->gid);
	kv_set(kv, "boot", st->boot);
	kv_setf(kv, "keeper", "%d:%llu", st->keeper.pid, (unsigned long long)st->keeper.start);
	kv_set_u64(kv, "ending", st->ending);
	kv_set_u64(kv, "failed", st->failed);
	kv_set(kv, "cgroup", st->cgroup);
	kv_set(kv, "procs", procs);
	kv_set(kv, "slots", slots);
	for (size_t i = 0; i < STATE_MAX_TIERS; i++) {
		snprintf(key, sizeof(key), "tier.%zu", i);
		if (st->tiers[i].path[0])
			kv_setf(kv, key, "%d:%llu:%s", st->tiers[i].by_root,
				(unsigned long long)st->tiers[i].inode, st->tiers[i].path);
	}
	r = kv_get_data(kv, &data, &size);
	if (r != 0)
		return r < 0 ? r : -EFBIG;
	fd = openat(dirfd, STATE_TMP, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, size);
	if (r < 0)
		return r;
	return renameat(dirfd, STATE_TMP, dirfd, RUNDIR_STATE) < 0 ? -errno : 0;
}

static void read_lists(struct state *st, const struct kv *kv)
{
	unsigned long long a, b, c;
	const char *s;
	int n;

	for (s = kv_get_or_empty(kv, "procs"); sscanf(s, "%llu:%llu,%n", &a, &b, &n) == 2; s += n)
		if (a > 1 && a <= INT_MAX)
			state_add_proc(st, &(struct proc){ .pid = (pid_t)a, .start = b });
	for (s = kv_get_or_empty(kv, "slots");
	     sscanf(s, "%llu:%llu:%llu,%n", &a, &b, &c, &n) == 3; s += n)
		if (a < RUNDIR_MAX_SLOTS)
			st->slots[a] = (struct state_slot){ true, (uint32_t)b, c };
	for (size_t i = 0; i < STATE_MAX_TIERS; i++) {
		struct state_tier *t = &st->tiers[i];
		char key[16];

		snprintf(key, sizeof(key), "tier.%zu", i);
		s = kv_get_or_empty(kv, key);
		if (sscanf(s, "%llu:%llu:%n", &a, &b, &n) != 2 || s[n] != '/' ||
		    strlen(s + n) >= sizeof(t->path))
			continue;
		t->by_root = a;
		t->inode = b;
		strcpy(t->path, s + n);
	}
}

int state_read(int dirfd, struct state *st)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(freep) char *buf = malloc(KV_MAX_SIZE + 1);
	unsigned long long start;
	ssize_t n;
	int pid;

	memset(st, 0, sizeof(*st));
	if (!buf)
		return -ENOMEM;
	n = proc_read(dirfd, RUNDIR_STATE, buf, KV_MAX_SIZE + 1);
	if (n < 0)
		return (int)n;
	if (kv_new_from_data(&kv, buf, (size_t)n) != 0 || kv_get_u64(kv, "version", 0) != 1)
		return -EPROTO;
	st->job_id = (uint32_t)kv_get_u64(kv, "job", 0);
	st->restart = (uint32_t)kv_get_u64(kv, "restart", 0);
	st->uid = (uid_t)kv_get_u64(kv, "uid", 0);
	st->gid = (gid_t)kv_get_u64(kv, "gid", 0);
	snprintf(st->boot, sizeof(st->boot), "%s", kv_get_or_empty(kv, "boot"));
	if (sscanf(kv_get_or_empty(kv, "keeper"), "%d:%llu", &pid, &start) == 2)
		st->keeper = (struct proc){ .pid = pid, .start = start };
	st->ending = kv_get_u64(kv, "ending", 0);
	st->failed = kv_get_u64(kv, "failed", 0);
	snprintf(st->cgroup, sizeof(st->cgroup), "%s", kv_get_or_empty(kv, "cgroup"));
	read_lists(st, kv);
	return 0;
}
