/*
 * tier-dir: the job's own directory in a tier that is not memory: stage-data-<job>, 0700.
 *
 * On a disk tier the keeper makes it, because only root may write there; elsewhere it is made here,
 * by a chore, as the user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct chore;
struct error;
struct job;

struct tier_dir {
	char *path;       /* the caller's */
	bool by_keeper;
	uint32_t index;   /* of conf->tiers, where by_keeper */
	uint64_t mark;    /* and what it is to the keeper, who reads the configuration again */
};

/* Where it is for tier, a name or an absolute DEST. -errno with the sentence. */
int tier_dir_find(const struct job *job, const char *tier, struct tier_dir *dir,
		  struct error *err);

/* Records path in the manifest at <rundir>/t/.stage/manifest and makes it; that it is there
 * already, the caller's and closed to others, is fine. Blocks: for a chore. */
struct tier_dir_order {
	const char *rundir, *path;
};
int tier_dir_make(void *order, struct error *err);
