/*
 * tier-dir: the user's directory (mode 0700) in a tier that is not memory. On a disk tier it is
 * stage-data-<job>/data, and the keeper makes it, because only root may write there. Elsewhere it
 * is stage-data-<job>, and a child process of stagingd makes it, as the user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct async;
struct error;
struct job_info;

struct tier_dir {
	char *path;   /* the caller's */
	char *shared; /* of all nodes of the job, not made; NULL where there is none. The caller's
		       */
	bool by_keeper;
	uint32_t index; /* of conf->tiers, where by_keeper */
	uint64_t mark;	/* and what it is to the keeper, who reads the configuration again */
};

void tier_dir_deinit(struct tier_dir *dir);

/* Where it is for tier, a name or an absolute DEST. -errno with the sentence. */
int tier_dir_find(const struct job_info *info, const char *tier, struct tier_dir *dir,
		  struct error *err);

/* The sentence for one that others may write to and that is not sticky: what is in it may be
 * exchanged. -EPERM. */
int tier_dir_refuse(const char *path, unsigned mode, struct error *err);

/* Records path in the manifest at <rundir>/t/.stage/manifest and makes it; that it is there
 * already, the caller's and closed to others, is fine. Blocks: for a task. */
struct tier_dir_order {
	const char *rundir, *path;
};
int tier_dir_make(void *order, struct error *err);
