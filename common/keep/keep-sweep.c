#include "common/keep/keep-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/rmtree.h"

#define LOCK_MS 5000

struct sweep {
	const struct keep *keep;
	uint64_t deadline_ms, max_ms;
	char oldest[KEEP_NAME_SIZE];
	uint64_t oldest_ms;
};

static int remove_old(void *arg, const char *name)
{
	const struct sweep *s = arg;
	const struct rmtree_limits limits = { .deadline_ms = s->deadline_ms };

	return strncmp(name, KEEP_OLD, strlen(KEEP_OLD)) == 0
		       ? rmtree_at(s->keep->fd, name, &limits, NULL)
		       : 0;
}

int keep_empty(const struct keep *k, uint64_t deadline_ms)
{
	struct sweep s = { .keep = k, .deadline_ms = deadline_ms };

	return keep_for_each_name(k, remove_old, &s);
}

/* Returns whether a process is making it and has locked it. */
static bool is_being_made(const struct keep *k, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(k->fd, name, KEEP_DIR_FLAGS);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Opens an entry that no running job uses, and its record if that can be read. Returns -EBUSY if it
 * is used, or if this is not known; -ENOTDIR if it is not an entry. */
static int open_unused(const struct keep *k, const char *name, struct keep_entry *e)
{
	*e = (struct keep_entry)KEEP_ENTRY_INIT;
	if (!keep_is_sum(name))
		return -ENOTDIR;
	e->fd = openat(k->fd, name, KEEP_DIR_FLAGS);
	if (e->fd < 0)
		return errno == ENOTDIR || errno == ELOOP || errno == EACCES ? -ENOTDIR : -EBUSY;
	if (keep_entry_settle(k, e)) {
		keep_entry_deinit(e);
		return -EBUSY;
	}
	(void)keep_entry_read(e); /* after keep_entry_settle(), which may set the time of the last
				   * use */
	return 0;
}

int keep_retire(const struct keep *k, const char *name)
{
	struct keep_entry e;
	int r = open_unused(k, name, &e);

	if (r == -EBUSY)
		return r;
	if (r == 0)
		keep_entry_deinit(&e);
	return keep_discard(k, name);
}

static bool is_due(const struct keep *k, const char *name, uint64_t max_ms)
{
	uint64_t now, keep_ms;
	struct keep_entry e;
	bool due;
	int r;

	if (!strncmp(name, KEEP_NEW, strlen(KEEP_NEW)))
		return !is_being_made(k, name);
	r = open_unused(k, name, &e);
	if (r < 0)
		return r == -ENOTDIR;
	keep_ms = e.record ? kv_get_u64(e.record, KEEP_MS, 0) : 0;
	if (keep_ms > max_ms)
		keep_ms = max_ms;
	now = clock_ms();
	due = e.used_ms > now || now - e.used_ms >= keep_ms;
	keep_entry_deinit(&e);
	return due;
}

static int discard_due(void *arg, const char *name)
{
	const struct sweep *s = arg;

	return strncmp(name, KEEP_OLD, strlen(KEEP_OLD)) != 0 && is_due(s->keep, name, s->max_ms)
		       ? keep_discard(s->keep, name)
		       : 0;
}

static int lock(const struct keep *k, uint64_t deadline_ms)
{
	const uint64_t late = clock_ms() + LOCK_MS;

	return keep_lock(k, deadline_ms < late ? deadline_ms : late);
}

int keep_sweep(const struct keep *k, uint64_t max_ms, uint64_t deadline_ms)
{
	struct sweep s = { .keep = k, .deadline_ms = deadline_ms, .max_ms = max_ms };
	int r, r2;

	r = lock(k, deadline_ms);
	if (r < 0)
		return r;
	r = keep_for_each_name(k, discard_due, &s);
	keep_unlock(k);
	r2 = keep_empty(k, deadline_ms);
	return r < 0 ? r : r2;
}

int keep_sweep_tier(int tier_fd, uint64_t max_ms, uint64_t deadline_ms)
{
	struct keep k = KEEP_INIT;
	int r = keep_open(&k, tier_fd);

	if (r == -EPERM || r == -EACCES) {
		max_ms = 0;
		r = keep_shut(tier_fd);
		if (r == 0)
			r = keep_open(&k, tier_fd);
	}
	if (r == 0)
		r = keep_sweep(&k, max_ms, deadline_ms);
	keep_close(&k);
	return r == -ENOENT ? 0 : r;
}

static int find_oldest(void *arg, const char *name)
{
	struct sweep *s = arg;
	struct keep_entry e;

	if (open_unused(s->keep, name, &e) < 0)
		return 0;
	if (!s->oldest[0] || e.used_ms < s->oldest_ms) {
		snprintf(s->oldest, sizeof(s->oldest), "%.64s", name);
		s->oldest_ms = e.used_ms;
	}
	keep_entry_deinit(&e);
	return 0;
}

int keep_evict_oldest(const struct keep *k, uint64_t deadline_ms)
{
	struct sweep s = { .keep = k, .deadline_ms = deadline_ms };
	int r = lock(k, deadline_ms);

	if (r < 0)
		return r;
	r = keep_for_each_name(k, find_oldest, &s);
	if (r == 0 && s.oldest[0])
		r = keep_discard(k, s.oldest);
	keep_unlock(k);
	if (r == 0)
		r = keep_empty(k, deadline_ms);
	return r < 0 ? r : s.oldest[0] != '\0';
}
