/*
 * A server begins before the job's memory is known, as a mount waits for nothing. Until that is
 * known it keeps FIRST: what it would keep beyond the job's share stays charged to wherever it was
 * then.
 */
#include "daemon/stagingd/servers.h"

#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/util/cleanup.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/worker-proc.h"

#define PART_OF_JOB 4
#define LEAST (1ULL << 20)
#define FIRST (2ULL << 20)
#define BESIDE (8ULL << 20) /* of a server, beside what it keeps: threads, buffers, tables */

/* Those that will serve, too; a dataset that is ready has reached its last state while it is
 * served. */
static uint64_t count_servers(const struct job *job)
{
	uint64_t n = 0;

	for (size_t i = 0; i < job->n_runs; i++) {
		const struct stage_run *run = job->runs[i];

		if (stage_run_serves(run) && (stage_run_get_worker(run) ||
					      !stage_state_is_final(job_get_stage(job, i)->state)))
			n++;
	}
	return n;
}

uint64_t servers_get_cache(const struct job *job)
{
	const uint64_t n = count_servers(job), all = job->conf->cache_size;
	uint64_t part;

	if (!job->mem_limit || n == 0)
		return all;
	part = job->mem_limit / PART_OF_JOB / n;
	if (part < LEAST)
		part = LEAST;
	return part < all ? part : all;
}

uint64_t servers_get_first(const struct job *job)
{
	const uint64_t all = servers_get_cache(job);

	return job->memory_known || all < FIRST ? all : FIRST;
}

uint64_t servers_get_memory(const struct job *job)
{
	return job->mem_limit ? count_servers(job) * (servers_get_cache(job) + BESIDE) : 0;
}

void servers_tell(struct job *job)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	uint64_t size = 0;

	if (!job->conf || !job->memory_known || (job->local && !job->mem_limit))
		return;
	size = servers_get_cache(job);
	if (size == job->told_cache)
		return;
	kv = proto_new(PROTO_OP_CACHE);
	if (!kv)
		return;
	kv_set_u64(kv, "size", size);
	job->told_cache = size;
	for (size_t i = 0; i < job->n_runs; i++)
		if (stage_run_serves(job->runs[i]) && stage_run_get_worker(job->runs[i]))
			worker_proc_send(stage_run_get_worker(job->runs[i]), kv, NULL, 0);
}
