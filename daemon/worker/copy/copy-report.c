/*
 * After the first thing that can't be read nothing more is copied, but the walk goes on for
 * UNREADABLE_MS, opening only, so that the user hears of more than one file at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/fd.h"
#include "daemon/worker/copy/copy-internal.h"
#include "daemon/worker/ctx.h"

#define UNREADABLE_MAX 10
#define UNREADABLE_MS 2000

static void count(struct copy *c, uint64_t *n, char *first, size_t size, const char *path)
{
	pthread_mutex_lock(&c->lock);
	if ((*n)++ == 0)
		snprintf(first, size, "%s", path);
	pthread_mutex_unlock(&c->lock);
}

void copy_count_special(struct copy *c, const char *path)
{
	count(c, &c->n_special, c->first_special, sizeof(c->first_special), path);
}

int copy_mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct copy *c = arg;

	count(c, &c->n_mounts, c->first_mount, sizeof(c->first_mount), dir->path);
	return 0;
}

bool copy_is_doomed(struct copy *c)
{
	if (!atomic_load_explicit(&c->doomed, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&c->lock);
	if (c->n_unreadable >= UNREADABLE_MAX || clock_ms() > c->doomed_ms + UNREADABLE_MS)
		walk_stop(c->walk);
	pthread_mutex_unlock(&c->lock);
	return true;
}

int copy_unreadable(struct walk *w, const char *path, int errnum, void *arg, struct error *err)
{
	struct copy *c = arg;
	size_t n;

	pthread_mutex_lock(&c->lock);
	if (!atomic_exchange(&c->doomed, true))
		c->doomed_ms = clock_ms();
	n = strlen(c->unreadable);
	if (c->n_unreadable++ < UNREADABLE_MAX)
		snprintf(c->unreadable + n, sizeof(c->unreadable) - n, "%s%s", n ? ", " : "",
			 *path ? path : ".");
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int copy_report(struct copy *c, struct error *err)
{
	if (c->n_unreadable)
		return error_set(err, EACCES, "may not be read: %s%s", c->unreadable,
				 c->n_unreadable > UNREADABLE_MAX ? " and more" : "");
	if (c->n_special)
		ctx_warn(c->ctx, "%llu sockets, FIFOs or devices were left out (%s)",
			 (unsigned long long)c->n_special, c->first_special);
	if (c->n_mounts)
		ctx_warn(c->ctx, "what is mounted inside of the source was left out (%s)",
			 c->first_mount);
	return 0;
}
