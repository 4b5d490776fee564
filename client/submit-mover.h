/*
 * submit-mover: the jobs that copy sources to scratch, by sbatch, squeue and stage-mover as
 * programs.
 *
 * A mover's job name contains the keys of what it copies: "stage-mover-KEY-KEY…" (submit-copy.h).
 * So Slurm's own list of jobs shows which mover copies what, and is never out of date.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct submit_copies;

#define MOVER_MAX_JOBS 64

struct mover_jobs {
	uint32_t ids[MOVER_MAX_JOBS]; /* that the job has to wait for */
	bool is_new[MOVER_MAX_JOBS];  /* submitted here */
	size_t n_jobs;
};

/*
 * For each copy: a mover of this user that is pending or running is joined, a copy that is whole is
 * used, for the others movers are submitted, one for each partition. Says on stderr what is done.
 * account: NULL for the user's default. On failure what was submitted is cancelled.
 */
int mover_bring(struct mover_jobs *jobs, struct submit_copies *copies, const char *account,
		struct error *err);

/* The job that would have waited was not submitted: new movers have nobody to work for. */
void mover_cancel(const struct mover_jobs *jobs);

/* "afterok:1:2,<the user's>": what the job waits for. Caller frees; NULL: no memory. */
char *mover_make_dependency(const struct mover_jobs *jobs, const char *users);
