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
	void (*on_known)(void *arg); /* called whenever the limit is set */
	void *arg;

	bool known; /* the two values below are final */
	uint64_t limit, used;
	uint64_t told_cache; /* the cache size that was last sent to the servers */
	struct loop_timer timer;
};

/* The caller sets the first five fields before. */
void job_memory_init(struct job_memory *m);
/* Stops waiting for the limit, because the job ends. */
void job_memory_stop(struct job_memory *m);

/* Reads the limit from the cgroup of this process. Used without a keeper. */
void job_memory_read(struct job_memory *m);
/* Waits for the keeper to report the limit. If it does not report within some seconds, there is no
 * limit. */
void job_memory_wait(struct job_memory *m);
void job_memory_set(struct job_memory *m, uint64_t limit, uint64_t used);

/* Returns the cache size of one server in bytes: CacheSize, or less, so that the caches of all
 * servers use at most a quarter of the job's memory. */
uint64_t job_memory_get_cache(const struct job_memory *m);
/* Returns the cache size of a server that starts now; it is small until the job's memory is
 * known. */
uint64_t job_memory_get_first_cache(const struct job_memory *m);
/* Returns the most memory that all servers together may use. */
uint64_t job_memory_get_servers(const struct job_memory *m);
/* Sends the cache size to the servers if it has changed. */
void job_memory_tell_servers(struct job_memory *m);
