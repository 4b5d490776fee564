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
	JOBLIFE_UNKNOWN, /* neither the node's processes nor Slurm show it */
};

/* Decides by facts of the node only: its boot, the record, the job's cgroups, Slurm's step daemons.
 * Never waits. JOBLIFE_UNKNOWN: Slurm has to be asked. */
enum joblife joblife_look(const struct state *st);

/* Asks squeue as the job's user. Takes at most JOBLIFE_ASK_MS. text: how the job ended, or why this
 * is not known; "" if the job runs and is not completing. */
#define JOBLIFE_ASK_MS 10000
enum joblife joblife_ask(const struct state *st, char text[static JOBLIFE_TEXT_SIZE]);

/* Returns true if this run of the timer should ask Slurm about a job with a living keeper. Not
 * every run does, because an allocation may have no process on the node for a long time. */
bool joblife_is_time_to_ask(const struct state *st);
