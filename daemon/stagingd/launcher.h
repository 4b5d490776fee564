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
	/* r: 0 or -errno; after a failure nothing more comes for id. */
	void (*spawned)(void *arg, uint32_t id, int r, pid_t pid);
	void (*exited)(void *arg, uint32_t id, int status); /* as of waitpid(2) */
	/* fds are lent: closed after the call. */
	void (*mounted)(void *arg, uint32_t slot, int r, const int *fds, size_t n_fds);
	void (*unmounted)(void *arg, uint32_t slot, int r);
	/* limit 0: not charged to the job. Once, or never. */
	void (*memory)(void *arg, uint64_t limit, uint64_t used);
	void (*cancel)(void *arg); /* the job is over */
	void (*gone)(void *arg);   /* the keeper is */
	/* slot: who asked, as for mounts; index: of conf->tiers; r: 0, -errno, or above 0
	 * the mode of a tier that is refused. */
	void (*tier_made)(void *arg, uint32_t slot, uint32_t index, int r);
	/* undone: of unplace() */
	void (*placed)(void *arg, uint32_t slot, bool undone, int r);
};

struct launcher_ops {
	void (*free)(struct launcher *l);
	/* fd becomes the worker's WORKER_FD_SOCKET; consumed in any case. */
	void (*spawn)(struct launcher *l, uint32_t id, enum keeper_class class, int fd);
	void (*kill)(struct launcher *l, uint32_t id, int sig);
	/* Only where the launcher mounts, NULL otherwise: */
	void (*mount)(struct launcher *l, uint32_t slot, unsigned n_fds);
	void (*unmount)(struct launcher *l, uint32_t slot);
	/* Only with a keeper: */
	void (*make_tier)(struct launcher *l, uint32_t slot, uint32_t index, uint64_t mark,
			  bool keep);
	/* The entry of that dataset becomes what fd is, which stays the caller's, or empty again.
	 * slot: who asked. */
	void (*place)(struct launcher *l, uint32_t slot, const char *name, int fd, bool read_only);
	void (*unplace)(struct launcher *l, uint32_t slot, const char *name);
	void (*count)(struct launcher *l, uint32_t count,
		      uint64_t value); /* enum count; NULL elsewhere */
	/* A worker of class writer serves a mount from now on, as long as the job lives; NULL
	 * elsewhere */
	void (*serves)(struct launcher *l, uint32_t id);
	/* The job is over: all is taken away and we are ended, last by gone() or a signal. */
	void (*end)(struct launcher *l);
};

struct launcher {
	const struct launcher_ops *ops;
	const struct launcher_events *events;
	void *arg;
	bool mounts; /* it can mount; else the worker uses fusermount3 */
	bool keeper; /* a tier's directory is made by it, memory is told by it */
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
