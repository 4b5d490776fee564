/*
 * keep-internal: what the files of keep share.
 */
#pragma once

#include "common/keep/keep.h"

#define KEEP_NEW "new-" /* before the sum: the dataset is being made */
#define KEEP_OLD "old-" /* before a number: the dataset is to be removed */
#define KEEP_DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Returns whether name is that of a dataset. */
bool keep_is_sum(const char *name);

/* Calls fn for each name in the directory. Returns 0 or the first error. */
int keep_for_each_name(const struct keep *k, int (*fn)(void *arg, const char *name), void *arg);

/* Reads the record in e->fd. Returns -ESTALE if there is no usable record. */
int keep_entry_read(struct keep_entry *e);
/* Removes the leases of jobs that are over and sets the time of the last use to now if there were
 * any. Returns whether other leases remain, or may remain. The directory must be locked. */
bool keep_entry_settle(const struct keep *k, const struct keep_entry *e);
