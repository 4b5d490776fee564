/*
 * submit-script: a mover as a batch job.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct submit_copy;

#define SUBMIT_JOB_NAME "stage-mover-"

/* Submits one job that makes all n copies. All copies use the same partition. The job's log is in
 * the base directory of the first copy. account: NULL for the default. sbatch prints its messages
 * to stderr. */
int submit_script_run(const struct submit_copy *const *copies, size_t n, const char *account,
		      uint32_t *idp, struct error *err);
