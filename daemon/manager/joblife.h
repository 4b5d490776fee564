/*
 * joblife: finds out whether a job still runs on this node. It is used to decide whether data may
 * be removed if Slurm has not reported the job's end. If this is not known, the job counts as
 * running.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct state;

#define JOBLIFE_TEXT_SIZE 600

enum joblife {
	JOBLIFE_RUNS,
	JOBLIFE_OVER,
	JOBLIFE_UNKNOWN, /* neither its processes nor Slurm tell */
};

/* By what the node itself knows: its boot, the record, the job's cgroups, Slurm's step daemons.
 * Waits for nothing. JOBLIFE_UNKNOWN: Slurm has to be asked. */
enum joblife joblife_look(const struct state *st);

/* By what squeue says, asked as the job's user. Takes JOBLIFE_ASK_MS at most. text: how it is over,
 * why that is not known, or "" of a job that runs and is not completing. */
#define JOBLIFE_ASK_MS 10000
enum joblife joblife_ask(const struct state *st, char text[static JOBLIFE_TEXT_SIZE]);

/* Is a keeper that lives asked about in this run of the timer? Slurm is not asked each minute about
 * each allocation that has no process on the node. */
bool joblife_is_time_to_ask(const struct state *st);
