/*
 * local: the run directory of a run without a keeper, all of which belongs to the user. This module
 * prepares it and keeps it locked as long as stagingd lives.
 */
#pragma once

struct error;

/*
 * Makes what is missing below rundir (common/protocol/rundir.h), takes the lock, and takes away
 * what a killed predecessor in the same directory left. rundir itself must be there, the caller's
 * and 0700. *lock_fdp is to be kept open. -EBUSY: a living stagingd holds it.
 */
int local_prepare(const char *rundir, int *lock_fdp, struct error *err);
