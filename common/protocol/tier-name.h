/*
 * tier-name: the names in a disk tier:
 *
 *	stage-data-<job>	a job's directory
 *	stage-data-<job>.<n>	a leftover, which will be removed
 *	stage-keep-<uid>	a user's kept data (common/keep/keep.h)
 *
 * The owner of the tier, root or the user, makes and renames the job's directory. The user's
 * directory `data` is in it. If the tier belongs to root, the job's directory does, too, so that no
 * user can mount on it. Root makes stage-keep-<uid>.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TIER_NAME_JOB "stage-data-" /* followed by the job's id */
#define TIER_NAME_DATA "data"
#define TIER_NAME_KEEP "stage-keep-" /* followed by the uid */
#define TIER_NAME_SIZE 32

/* Parses "stage-data-<job>[.<n>]", or "stage-keep-<uid>" with job 0. Returns 0 or -EINVAL. */
int tier_name_parse(const char *name, uint32_t *job_idp);

/* Renames the job's directory in dirfd to a leftover, whatever it contains. Returns 0 if there is
 * none. */
int tier_name_set_aside(int dirfd, uint32_t job_id);

/* Makes the job's directory with `data` in it (mode 0700, owned by the caller). An existing
 * directory becomes a leftover. Returns 0 or -errno. */
int tier_name_make(int dirfd, uint32_t job_id);

/* Returns whether other users can replace entries of a directory with this mode. */
bool tier_name_is_open(mode_t mode);

/* Calls fn with the name of each leftover of the job (0: of any job). Returns 0 or the first error.
 * Kept data is not a leftover. */
int tier_name_for_each(int dirfd, uint32_t job_id,
		       int (*fn)(void *arg, int dirfd, const char *name), void *arg);
