/*
 * sluid: Slurm's name for one run of a job. From Slurm 26.05 on it is the name of the job's
 * directory in cgroup v2, unless CgroupJobIdPaths=yes is set; before that release the name is
 * job_N. A requeued job gets another one.
 */
#pragma once

#include <stdbool.h>

#define SLUID_SIZE 15

/* Has the text the form of a SLUID: an 's' and 13 digits and capital letters? */
bool sluid_is_valid(const char *text);

/* The SLUID of the job whose step this process is in, by /proc/self/cgroup; buf has SLUID_SIZE
 * bytes. NULL: none. */
const char *sluid_read_own(char *buf);
