/*
 * launcher: starts workers, mounts, and makes directories in tiers. The keeper does this on request
 * (launcher-keeper.c), or stagingd itself if there is no keeper (launcher-local.c).
 *
 * Every request is answered later through the events, never from inside the call; a request that
 * fails is answered too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-verbs.h"
#include "common/util/cleanup.h"

struct conf;
struct error;
struct launcher;
struct loop;

struct launcher_events {
	/* r: 0 or -errno. After a failure, there are no further events for id. */
	void (*spawned)(void *arg, uint32_t id, int r, pid_t pid);
	void (*exited)(void *arg, uint32_t id, int status); /* status as from waitpid(2) */
	/* fds are lent and are closed after the call. */
	void (*mounted)(void *arg, uint32_t slot, int r, const int *fds, size_t n_fds);
	void (*unmounted)(void *arg, uint32_t slot, int r);
	/* Called when the limit is known, and again if it changes. limit 0: the memory is not
	 * charged to the job. */
	void (*memory)(void *arg, uint64_t limit, uint64_t used);
	void (*cancel)(void *arg); /* the job is over */
	void (*gone)(void *arg);   /* the connection to the keeper has ended */
	/* slot: identifies the dataset that asked, as for mounts; index: of conf->tiers. r: 0;
	 * -errno; or, above 0, the mode of a tier that is refused because of it. */
	void (*tier_made)(void *arg, uint32_t slot, uint32_t index, int r);
	/* undone: this is the answer to unplace() */
	void (*placed)(void *arg, uint32_t slot, bool undone, int r);
};

struct launcher_ops {
	void (*free)(struct launcher *l);
	/* fd becomes the worker's WORKER_FD_SOCKET; it is consumed even if the call fails. */
	void (*spawn)(struct launcher *l, uint32_t id, enum keeper_class class, int fd);
	void (*kill)(struct launcher *l, uint32_t id, int sig);
	/* Set only if the launcher can mount, else NULL: */
	void (*mount)(struct launcher *l, uint32_t slot, unsigned n_fds);
	void (*unmount)(struct launcher *l, uint32_t slot);
	/* Set only with a keeper, else NULL: */
	void (*make_tier)(struct launcher *l, uint32_t slot, uint32_t index, uint64_t mark,
			  bool keep);
	/* place() shows the file or directory of fd as the entry `name` of the dataset directory;
	 * unplace() makes the entry empty again. fd stays the caller's. slot: identifies the
	 * dataset that asked. */
	void (*place)(struct launcher *l, uint32_t slot, const char *name, int fd, bool read_only);
	void (*unplace)(struct launcher *l, uint32_t slot, const char *name);
	void (*count)(struct launcher *l, uint32_t count,
		      uint64_t value); /* an enum count; NULL without a keeper */
	/* Reports that a worker of class writer serves a mount from now on, until the job's end.
	 * NULL without a keeper. */
	void (*serves)(struct launcher *l, uint32_t id);
	/* Reports that the job is over. The keeper removes everything and ends stagingd; the last
	 * event is gone(), or stagingd gets a signal. */
	void (*end)(struct launcher *l);
};

struct launcher {
	const struct launcher_ops *ops;
	const struct launcher_events *events;
	void *arg;
	bool mounts; /* the launcher can mount; else the worker uses fusermount3 */
	bool keeper; /* there is a keeper: it makes the directories of tiers and reports the
		      * memory limit */
};

static inline void launcher_free(struct launcher *l)
{
	if (l)
		l->ops->free(l);
}
DEFINE_FREEP(struct launcher, launcher_free)

/* fd: the socket to the keeper, taken over. */
int launcher_keeper_new(struct launcher **lp, struct loop *loop, int fd,
			const struct launcher_events *events, void *arg, struct error *err);

/* worker: path of the program, copied. */
int launcher_local_new(struct launcher **lp, struct loop *loop, const char *worker,
		       const struct launcher_events *events, void *arg, struct error *err);
