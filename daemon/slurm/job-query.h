/*
 * job-query: asks the controller for jobs, and prints a line for each.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define JOB_QUERY_MAX_IDS 1024

struct job_query {
	const char *format; /* daemon/slurm/job-line.h */
	const char *states; /* "PD,R": with one of these; NULL: with any */
	const char *node;   /* NULL, or that run on it */
	uid_t uid;
	bool has_uid;			 /* of this user */
	uint32_t ids[JOB_QUERY_MAX_IDS]; /* with one of these numbers, also as an array's or a
					  * heterogeneous job's; one that is not known is an error
					  * where it is asked for alone */
	size_t n_ids;			 /* 0: with any */
};

/* Jobs in all partitions. 0; -1: a field can't be printed, or a list of nodes can't be read; else
 * errno's number or one of Slurm's (slurm_errno.h). What has been printed is not all then. */
int job_query_print(const struct job_query *q, FILE *out);
