/*
 * reap: what is left of jobs whose keeper is gone, at boot and by timer; and a list of what is
 * there.
 *
 * A job's directory is left alone as long as its keeper holds the lock. Whether such a job still
 * exists is not asked: Slurm's epilog is what ends a living keeper.
 */
#pragma once

struct error;

/* Cleans up after dead keepers and in disk tiers, forgets old crashes. conf_path: NULL for the
 * usual one; without a valid one disk tiers are left alone. 0 when nothing is left. */
int reap_all(const char *conf_path, struct error *err);

/* Prints a line of key=value words for each job: job, uid, keeper (alive, dead), bytes (in
 * memory), mounts, workers, tiers. */
int reap_list(struct error *err);
