/*
 * tier-name: how a job's directory in a disk tier is called, stage-data-<job>, and how what is to
 * be removed there is: the same with a number behind it. The owner of the tier, root or the user,
 * makes and renames it. It contains the user's directory `data`. If the tier belongs to root, the
 * outer directory does, too, so that no user can mount on it. A user's kept data is in
 * stage-keep-<uid>, which root makes (common/keep/keep.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TIER_NAME_JOB "stage-data-" /* and its number */
#define TIER_NAME_DATA "data"
#define TIER_NAME_KEEP "stage-keep-" /* and the uid */
#define TIER_NAME_SIZE 32

/* The job of a name "stage-data-<job>[.<n>]", 0 of "stage-keep-<uid>": 0 or -EINVAL. */
int tier_name_parse(const char *name, uint32_t *job_idp);

/* Gives the job's directory in dirfd the name of a leftover, whatever is in it. None: 0. */
int tier_name_set_aside(int dirfd, uint32_t job_id);

/* Makes the directory with `data` in it (mode 0700, owned by the caller). An existing directory
 * becomes a leftover. 0 or -errno. */
int tier_name_make(int dirfd, uint32_t job_id);

/* May other users replace entries of a directory with that mode? */
bool tier_name_is_open(mode_t mode);

/* Calls fn for the name of each leftover of the job (0: of any job); 0 or the first error. Kept
 * data is not a leftover. */
int tier_name_for_each(int dirfd, uint32_t job_id,
		       int (*fn)(void *arg, int dirfd, const char *name), void *arg);
