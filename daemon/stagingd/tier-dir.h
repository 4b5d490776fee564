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
	char *path;   /* owned by the caller; freed by tier_dir_deinit() */
	char *shared; /* directory that all nodes of the job share; not created yet. NULL: none.
		       * Owned as path */
	bool by_keeper;
	uint32_t index; /* index in conf->tiers, if by_keeper */
	uint64_t mark;	/* mark by which the keeper checks that conf->tiers[index] is still the
			 * same tier, because it reads the configuration again */
};

void tier_dir_deinit(struct tier_dir *dir);

/* Finds the directory for tier, which is a name or an absolute DEST. Returns 0, or -errno with err
 * set. */
int tier_dir_find(const struct job_info *info, const char *tier, struct tier_dir *dir,
		  struct error *err);

/* Reports a parent that others can write to and that is not sticky, because entries could be
 * replaced. Returns -EPERM. */
int tier_dir_refuse(const char *path, unsigned mode, struct error *err);

/* Records path in the manifest at <rundir>/t/.stage/manifest and creates it. An existing directory
 * is accepted if it belongs to the caller and is closed to others. Blocks, so it is for a child
 * process. */
struct tier_dir_order {
	const char *rundir, *path;
};
int tier_dir_make(void *order, struct error *err);
