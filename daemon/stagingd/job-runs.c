#include "daemon/stagingd/job-runs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/dataset/dataset.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

void job_runs_init(struct job_runs *runs)
{
	*runs = (struct job_runs){ .next_id = 1, .next_worker_id = 1 };
}

int job_runs_add(struct job_runs *runs, struct stage_run *run)
{
	if (runs->n >= JOB_MAX_RECORDS)
		return -ENOSPC;
	runs->runs[runs->n++] = run;
	return 0;
}

size_t job_runs_remove(struct job_runs *runs, const struct stage_run *run)
{
	size_t i = 0;

	while (i < runs->n && runs->runs[i] != run)
		i++;
	assert(i < runs->n);
	memmove(runs->runs + i, runs->runs + i + 1, (--runs->n - i) * sizeof(runs->runs[0]));
	return i;
}

void job_runs_put_back(struct job_runs *runs, struct stage_run *run, size_t place)
{
	assert(place <= runs->n && runs->n < JOB_MAX_RECORDS);
	memmove(runs->runs + place + 1, runs->runs + place,
		(runs->n++ - place) * sizeof(runs->runs[0]));
	runs->runs[place] = run;
}

struct stage *job_runs_get_stage(const struct job_runs *runs, size_t i)
{
	return stage_run_get_stage(runs->runs[i]);
}

struct stage *job_runs_find_stage(const struct job_runs *runs, uint32_t id)
{
	for (size_t i = 0; i < runs->n; i++)
		if (job_runs_get_stage(runs, i)->id == id)
			return job_runs_get_stage(runs, i);
	return NULL;
}

struct stage_run *job_runs_find(const struct job_runs *runs, const char *name)
{
	for (size_t i = 0; i < runs->n; i++)
		if (!strcasecmp(job_runs_get_stage(runs, i)->dataset->name, name))
			return runs->runs[i];
	return NULL;
}

int job_runs_take_slot(struct job_runs *runs)
{
	for (int i = 0; i < RUNDIR_MAX_SLOTS; i++) {
		if (runs->slots >> i & 1)
			continue;
		runs->slots |= 1ULL << i;
		return i;
	}
	return -ENOSPC;
}

void job_runs_return_slot(struct job_runs *runs, int slot)
{
	runs->slots &= ~(1ULL << slot);
}
