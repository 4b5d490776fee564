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
	uint32_t ids[MOVER_MAX_JOBS]; /* the jobs that the user's job has to wait for */
	bool is_new[MOVER_MAX_JOBS];  /* this process has submitted it */
	size_t n_jobs;
};

/* For each copy: uses a complete copy, or joins a pending or running mover of this user. Submits
 * new movers for the other copies, one for each partition. Prints on stderr what it does. account:
 * NULL for the user's default. On failure, the new movers are cancelled. */
int mover_bring(struct mover_jobs *jobs, struct submit_copies *copies, const char *account,
		struct error *err);

/* Cancels the new movers, for when the job that needs them could not be submitted. */
void mover_cancel(const struct mover_jobs *jobs);

/* Returns "afterok:1:2,<the user's>", the dependency of the job. The caller frees; NULL: no
 * memory. */
char *mover_make_dependency(const struct mover_jobs *jobs, const char *users);
