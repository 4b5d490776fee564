/*
 * reap: cleans up after jobs that are over, at boot and by a timer. The data of a running job stays
 * until the job's end, also if its keeper or stagingd has died (joblife.h). A living keeper is left
 * alone, unless its job is over and nobody has ended it, or the process that cleans up is stopped.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

/* Cleans up after dead keepers and in disk tiers, ends forgotten ones, forgets old crashes. Says on
 * standard error what is kept, and why. Without a valid configuration disk tiers are left alone. 0
 * when nothing is left that should go. by_timer: Slurm is asked about keepers that live in some of
 * the runs alone. */
int reap_all(bool by_timer, struct error *err);

/* Cleans up what keepers of that user's jobs have set aside and did not live to remove. */
void reap_aside(uid_t uid);
