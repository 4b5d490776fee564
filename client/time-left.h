/*
 * time-left: how long this job may still run, as Slurm says.
 */
#pragma once

#include <stdint.h>

/* Parses "[[DAYS-]HOURS:]MINUTES:SECONDS", as squeue prints it. Returns 0, or -EINVAL for other
 * texts, such as UNLIMITED. */
int time_left_from_string(const char *text, uint64_t *secondsp);

/* Of the job in SLURM_JOB_ID. Asks Slurm and blocks for a second at most. 0, -ETIMEDOUT: no answer
 * in that time, or -ENOENT: there is no limit, or it is not known. */
int time_left_ask(uint64_t *msp);
