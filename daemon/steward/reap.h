/*
 * reap: what is left of jobs whose keeper is gone, at boot and by timer.
 *
 * A job's directory is left alone as long as its keeper holds the lock. Whether such a job still
 * exists is not asked: Slurm's epilog is what ends a living keeper.
 */
#pragma once

struct error;

/* Cleans up after dead keepers and in disk tiers, forgets old crashes. Without a valid
 * configuration disk tiers are left alone. 0 when nothing is left. */
int reap_all(struct error *err);

/* Cleans up what keepers have set aside and did not live to remove. */
void reap_aside(void);
