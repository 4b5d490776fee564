/*
 * job-memory: the job's memory limit, and the part of it that image servers may use for blocks that
 * they keep. These blocks are charged to the job until its end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/stagingd/loop.h"

struct job_info;
struct job_runs;

struct job_memory {
	struct loop *loop;
	const struct job_info *info;
	const struct job_runs *runs;
	void (*on_known)(void *arg); /* whenever the limit is set */
	void *arg;

	bool known; /* the limits below are final */
	uint64_t limit, used;
	uint64_t told_cache; /* what servers were told to keep */
	struct loop_timer timer;
};

/* The caller has filled in the first five fields. */
void job_memory_init(struct job_memory *m);
/* The job ends: nobody needs the limit any more. */
void job_memory_stop(struct job_memory *m);

/* Without a keeper: the limit is that of the cgroup of this process. */
void job_memory_read(struct job_memory *m);
/* With a keeper: it reports the limit. After some seconds, there is none. */
void job_memory_wait(struct job_memory *m);
void job_memory_set(struct job_memory *m, uint64_t limit, uint64_t used);

/* What one server may keep: CacheSize, or less, so that all servers together keep at most a quarter
 * of the job's memory. */
uint64_t job_memory_get_cache(const struct job_memory *m);
/* The same for one that begins now; little as long as the job's memory is not known. */
uint64_t job_memory_get_first_cache(const struct job_memory *m);
/* What all servers together may take. */
uint64_t job_memory_get_servers(const struct job_memory *m);
/* Tells the servers how much they may keep, if that has changed. */
void job_memory_tell_servers(struct job_memory *m);
