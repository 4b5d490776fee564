/*
 * keep-internal: what the files of keep share.
 */
#pragma once

#include "common/keep/keep.h"

#define KEEP_NEW "new-" /* before the sum: it is being made */
#define KEEP_OLD "old-" /* before a number: it is to be removed */
#define KEEP_DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Of a dataset? */
bool keep_is_sum(const char *name);

/* Calls fn for each name that is there; 0 or the first error. */
int keep_for_each_name(const struct keep *k, int (*fn)(void *arg, const char *name), void *arg);

/* The record of e->fd. -ESTALE: there is none that can be used. */
int keep_entry_read(struct keep_entry *e);
/* Ends the leases of jobs that are over; the last use ends now. True: there are others, or nobody
 * knows. The directory is locked. */
bool keep_entry_settle(const struct keep *k, const struct keep_entry *e);
