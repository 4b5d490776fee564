/*
 * local: the run directory of a run without keeper, which is all the user's: made ready, locked as
 * long as stagingd lives, and swept where an earlier stagingd was killed.
 */
#pragma once

struct error;
struct loop;

/*
 * Makes what is missing below rundir (common/rundir.h), takes the lock, and takes away what a
 * killed predecessor in the same directory left. rundir itself must be there, the caller's and 0700.
 * *lock_fdp is to be kept open. -EBUSY: a living stagingd holds it.
 */
int local_prepare(const char *rundir, int *lock_fdp, struct error *err);

/* Starts to remove the directories beside rundir whose stagingd is dead; does not wait. */
void local_sweep(struct loop *loop, const char *rundir);
