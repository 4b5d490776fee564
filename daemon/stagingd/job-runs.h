/*
 * job-runs: the datasets of a job, found by index, id or name. It assigns their ids.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/protocol/rundir.h"

struct stage;
struct stage_run;

#define JOB_MAX_RECORDS RUNDIR_MAX_SLOTS /* datasets at the same time, including ended ones */

struct job_runs {
	struct stage_run *runs[JOB_MAX_RECORDS];
	size_t n;
	uint32_t next_id, next_worker_id; /* next ids for datasets and for workers */
	uint64_t slots;			  /* bit k: m/<k> is in use */
};

void job_runs_init(struct job_runs *runs);

/* Returns 0, or -ENOSPC if there are JOB_MAX_RECORDS runs. */
int job_runs_add(struct job_runs *runs, struct stage_run *run);
/* Removes the run, which is in the list; the caller frees it. Returns its place. */
size_t job_runs_remove(struct job_runs *runs, const struct stage_run *run);
/* Puts a run back at the place where it was. The list must have room. */
void job_runs_put_back(struct job_runs *runs, struct stage_run *run, size_t place);

struct stage *job_runs_get_stage(const struct job_runs *runs, size_t i);
/* Finds a dataset by its id, which never changes. NULL: it no longer exists. */
struct stage *job_runs_find_stage(const struct job_runs *runs, uint32_t id);
/* Finds a dataset by its name, ignoring case. NULL: none. */
struct stage_run *job_runs_find(const struct job_runs *runs, const char *name);

/* Reserves a mount point m/<slot>. Returns the slot, or -ENOSPC if all are in use. */
int job_runs_take_slot(struct job_runs *runs);
void job_runs_return_slot(struct job_runs *runs, int slot);
