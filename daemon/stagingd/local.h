/*
 * local: the run directory of a run without a keeper, all of which belongs to the user. This module
 * prepares it and keeps it locked as long as stagingd lives.
 */
#pragma once

struct error;

/* Makes the missing directories and files below rundir (common/protocol/rundir.h), takes the lock,
 * and removes what a killed predecessor in the same directory left. rundir itself must exist,
 * belong to the caller and have mode 0700. The caller must keep *lock_fdp open. Returns 0 or an
 * error with err set; -EBUSY: a running stagingd holds the lock. */
int local_prepare(const char *rundir, int *lock_fdp, struct error *err);
