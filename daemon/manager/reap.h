/*
 * reap: cleans up after jobs that are over, at boot and by a timer. The data of a running job stays
 * until the job's end, also if its keeper or stagingd has died (joblife.h). A living keeper is left
 * alone, unless its job is over and nobody has ended it, or the process that cleans up is stopped.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

/* Cleans up after dead keepers and in disk tiers, ends keepers whose job is over, and forgets old
 * crashes. Prints on standard error what stays, and why. Without a valid configuration, disk tiers
 * are left alone. Returns 0 if nothing is left that should be removed, or -errno. by_timer: only
 * some runs ask Slurm about living keepers. */
int reap_all(bool by_timer, struct error *err);

/* Removes data that keepers of this user's jobs have moved aside and could not remove before they
 * died. */
void reap_aside(uid_t uid);
