/*
 * submit-script: a mover as a batch job.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct submit_copy;

#define SUBMIT_JOB_NAME "stage-mover-"

/* Submits one job that makes all n copies, which have one partition; its log is in the first one's
 * base. account: NULL for the default. sbatch's own messages go to stderr. */
int submit_script_run(const struct submit_copy *const *copies, size_t n, const char *account,
		      uint32_t *idp, struct error *err);
