/*
 * An image server begins before the job's memory is known, because a mount does not wait for it.
 * Until then it keeps FIRST bytes of blocks. Pages that it used before it was moved stay charged to
 * its earlier cgroup, so it must not keep more than its later share.
 */
#include "daemon/stagingd/job-memory.h"

#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/util/cleanup.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-runs.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/worker-proc.h"

/* Time for the keeper to report the limit. It does so after 5 s at the latest, if it is not busy
 * with a request that takes long. Until then, it may withhold a limit that it knows, because memory
 * of an earlier job is still being freed. So the wait here is longer. */
#define WAIT_MS 10000
#define PART_OF_JOB 4
#define LEAST (1ULL << 20)
#define FIRST (2ULL << 20)
/* memory of a server in addition to its cached blocks: threads, buffers, tables */
#define BESIDE (8ULL << 20)

/* --- the limit --- */

/* Slurm has made a group for the job, and no limit of it. */
static bool is_unlimited(uint64_t limit)
{
	uint64_t total, available;

	return memory_read_node(&total, &available) == 0 && limit >= total;
}

void job_memory_set(struct job_memory *m, uint64_t limit, uint64_t used)
{
	const bool is_new = !m->known || m->limit != limit;

	loop_timer_cancel(&m->timer);
	m->limit = limit;
	m->used = used;
	m->known = true;
	if (!limit && is_new)
		log_info("data in memory is not charged to the job");
	else if (is_new && is_unlimited(limit))
		log_info(
			"data in memory is not limited by the job's --mem: Slurm has set no limit");
	m->on_known(m->arg);
}

static void on_late(void *arg)
{
	job_memory_set(arg, 0, 0);
}

void job_memory_init(struct job_memory *m)
{
	loop_timer_init(&m->timer, on_late, m);
}

void job_memory_stop(struct job_memory *m)
{
	loop_timer_cancel(&m->timer);
}

void job_memory_read(struct job_memory *m)
{
	uint64_t limit = 0, used = 0;

	if (memory_read_cgroup(&limit, &used) == 0) {
		m->limit = limit;
		m->used = used;
	}
	m->known = true;
}

void job_memory_wait(struct job_memory *m)
{
	loop_timer_set(m->loop, &m->timer, WAIT_MS);
}

/* --- the servers --- */

/* Counts running servers and datasets that will have one. A ready dataset's state is final, but its
 * server is still running. */
static uint64_t count_servers(const struct job_memory *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->runs->n; i++) {
		const struct stage_run *run = m->runs->runs[i];

		if (stage_run_serves(run) &&
		    (stage_run_get_worker(run) ||
		     !stage_state_is_final(job_runs_get_stage(m->runs, i)->state)))
			n++;
	}
	return n;
}

uint64_t job_memory_get_cache(const struct job_memory *m)
{
	const uint64_t n = count_servers(m), all = m->info->conf->cache_size;
	uint64_t part;

	if (!m->limit || n == 0)
		return all;
	part = m->limit / PART_OF_JOB / n;
	if (part < LEAST)
		part = LEAST;
	return part < all ? part : all;
}

uint64_t job_memory_get_first_cache(const struct job_memory *m)
{
	const uint64_t all = job_memory_get_cache(m);

	return m->known || all < FIRST ? all : FIRST;
}

uint64_t job_memory_get_servers(const struct job_memory *m)
{
	return m->limit ? count_servers(m) * (job_memory_get_cache(m) + BESIDE) : 0;
}

void job_memory_tell_servers(struct job_memory *m)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	uint64_t size = 0;

	if (!m->info->conf || !m->known || (m->info->local && !m->limit))
		return;
	size = job_memory_get_cache(m);
	if (size == m->told_cache)
		return;
	kv = proto_new(PROTO_OP_CACHE);
	if (!kv)
		return;
	kv_set_u64(kv, "size", size);
	m->told_cache = size;
	for (size_t i = 0; i < m->runs->n; i++)
		if (stage_run_serves(m->runs->runs[i]) && stage_run_get_worker(m->runs->runs[i]))
			worker_proc_send(stage_run_get_worker(m->runs->runs[i]), kv, NULL, 0);
}
