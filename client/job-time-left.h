/*
 * job-time-left: the time left until the time limit of the Slurm job.
 */
#pragma once

#include <stdint.h>

/* Parses "[[DAYS-]HOURS:]MINUTES:SECONDS", as squeue prints it. Returns 0, or -EINVAL for other
 * texts, such as UNLIMITED. */
int job_time_left_from_string(const char *text, uint64_t *secondsp);

/* Asks Slurm about the job in SLURM_JOB_ID. Blocks for a second at most. Returns 0; -ETIMEDOUT: no
 * answer in that time; -ENOENT: there is no limit, or it is not known. */
int job_time_left_ask(uint64_t *msp);
