/*
 * reap: what jobs that are over have left, at boot and by timer.
 *
 * The data of a job that runs stays until the job's end, whoever has died (joblife.h). A keeper
 * that lives is let alone, unless its job is over and nobody has ended it, or what cleans up is
 * stopped.
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
