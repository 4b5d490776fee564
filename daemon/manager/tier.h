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
 * Makes the directory in the tier of p, whose name in the configuration is which. It is recorded in
 * st first. If the name exists already, it is moved aside and removed with the directory. Takes at
 * most a second if it acts as the user. keep: also makes the user's directory for kept data
 * (common/keep/keep.h), if root makes it. 0, -errno, or a number above 0: the mode of a tier that
 * others may write to and that is not sticky, in which nothing is made.
 */
int tier_make(const struct jobdir *d, struct state *st, const struct helper_path *p, int64_t which,
	      bool keep, struct error *err);

typedef int (*tier_fn)(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		       struct error *err);

/* Gives the job's directory in t the name of a leftover, whatever is in it. */
int tier_set_aside(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		   struct error *err);

/* Removes what was set aside in t: 0, or -errno (such as -ETIMEDOUT) if something is left. */
int tier_remove(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		struct error *err);

/* Removes leftovers of jobs without a run directory from the disk tiers of the configuration whose
 * paths are the same for all jobs. After a reboot, no state file lists them. Also removes kept data
 * whose time is over. by_timer: the log has a line about each leftover once an hour. */
void tier_sweep(uint64_t deadline_ms, bool by_timer);
