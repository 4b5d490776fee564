/*
 * tier: the job's directory in a disk tier, <Path>/stage-data-<job>, and the user's directory
 * `data` (mode 0700) in it. If all directories and links of the tier's path belong to root, the
 * keeper makes and removes both directories, and the outer one belongs to root. Otherwise (/tmp),
 * or if the site makes Path for each job (Provided=site), this is done as the user. The content is
 * always deleted as the user.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct helper_path;
struct jobdir;
struct state;
struct state_tier;

/*
 * Makes the job's directory in the tier of p. which: the tier's name in the configuration (struct
 * helper_path). The tier is recorded in st first. If the directory exists already, it is moved
 * aside, and removed later with the new one. Takes at most a second if it acts as the user. keep:
 * also makes the user's directory for kept data (common/keep/keep.h), if root makes it. Returns 0,
 * -errno, or a positive number: the mode of a tier to which others may write and that is not
 * sticky; in such a tier nothing is made.
 */
int tier_make(const struct jobdir *d, struct state *st, const struct helper_path *p, int64_t which,
	      bool keep, struct error *err);

typedef int (*tier_fn)(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		       struct error *err);

/* Gives the job's directory in t the name of a leftover. The directory need not be empty. */
int tier_set_aside(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		   struct error *err);

/* Removes all of the job's leftovers in t. Returns 0, or -errno (such as -ETIMEDOUT) if something
 * is left. */
int tier_remove(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		struct error *err);

/* Removes leftovers of jobs without a run directory from the disk tiers of the configuration whose
 * paths are the same for all jobs. After a reboot, no record lists them. Also removes kept data
 * whose time is over. by_timer: each leftover is logged only once an hour. */
void tier_sweep(uint64_t deadline_ms, bool by_timer);
