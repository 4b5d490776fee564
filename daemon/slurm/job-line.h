/*
 * job-line: formats a job as a line of squeue, for the formats of squeue that stage-data uses.
 */
#pragma once

#include <stdio.h>

#include <slurm/slurm.h>

/* "CG", "R", "PD": as %t. Lent. */
const char *job_line_get_state(const slurm_job_info_t *job);

/* Returns the same without the states of a job that is resized or signalled: it runs on. */
const char *job_line_get_running_state(const slurm_job_info_t *job);

/*
 * Writes format with the job's values, and an end of line. format has any text and of squeue's
 * fields %A %D %i %j %l %L %M %P %r %t %T. 0; -EINVAL: another field; -ENOTSUP: a reason whose name
 * is not known here. Part of the line may have been written then.
 */
int job_line_print(FILE *out, const char *format, const slurm_job_info_t *job);
