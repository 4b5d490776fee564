/*
 * sluid: Slurm's name for one run of a job. From Slurm 26.05 on it is the name of the job's
 * directory in cgroup v2, unless CgroupJobIdPaths=yes is set; before that release the name is
 * job_N. A requeued job gets another one.
 */
#pragma once

#include <stdbool.h>

#define SLUID_SIZE 15

/* Returns whether text has the form of a SLUID: an 's' and 13 digits or capital letters. */
bool sluid_is_valid(const char *text);

/* Reads from /proc/self/cgroup the SLUID of the job to which this process belongs. buf has
 * SLUID_SIZE bytes. Returns buf, or NULL if there is none. */
const char *sluid_read_own(char *buf);
