#include "daemon/stagingd/worker-task.h"

#include <stdlib.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/policy/memory-limits.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/job-memory.h"
#include "daemon/stagingd/stage.h"

/* Counts the datasets under the same rule that read or will read, because the rule's limits are for
 * all of them together. */
static uint64_t count_readers(const struct job *job, const struct stage *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < job->runs.n; i++) {
		const struct stage *other = job_runs_get_stage(&job->runs, i);

		if (other == s || (!stage_state_is_final(other->state) && other->rule && s->rule &&
				   !strcmp(other->rule, s->rule)))
			n++;
	}
	return n > 0 ? n : 1;
}

static uint64_t share(uint64_t max, uint64_t n)
{
	return max == 0 || max / n > 0 ? max / n : 1;
}

/* Returns the longest delay. The nodes of a job share the time in equal parts. For an array, the
 * number of tasks that start is not known. */
static uint64_t get_jitter(const struct job *job, uint64_t max_ms)
{
	return job->info.array	       ? max_ms
	       : job->info.n_nodes > 1 ? max_ms - max_ms / job->info.n_nodes
				       : 0;
}

/* Adds keys of the rule that only the worker needs. */
static void fill_turns(struct kv *kv, const struct job *job, const char *rule)
{
	const struct conf *conf = job->info.conf;

	for (size_t i = 0; rule && i < conf->n_sources; i++) {
		const struct conf_source *s = &conf->sources[i];

		if (strcmp(s->name, rule))
			continue;
		kv_set(kv, "tokendir", s->token_dir);
		kv_set_u64(kv, "tokenwait", s->token_wait_ms);
		kv_set_u64(kv, "jitter", get_jitter(job, s->jitter_ms));
	}
}

/* Returns how long the data stays for the user's next job in a tier of that kind; 0: it is removed
 * at the end of this job. */
static uint64_t get_keep(const struct job *job, const struct dataset *ds, const struct conf_tier *t,
			 enum conf_tier_kind kind)
{
	if (!t || t->kind != kind || job->info.local)
		return 0;
	return ds->keep_ms < t->max_keep_ms ? ds->keep_ms : t->max_keep_ms;
}

/* The place of kept data in memory is sent for every dataset, because the worker may delete kept
 * data to make room. */
static void fill_keep(struct kv *kv, const struct job *job, const struct dataset *ds)
{
	const bool named = ds->dest && strcmp(ds->dest, "auto") != 0;
	const struct conf_tier *disk = conf_get_tier(job->info.conf, named ? ds->dest : "ssd");
	const struct conf_tier *memory = conf_get_tier(job->info.conf, "shm");

	kv_set_u64(kv, "keep", get_keep(job, ds, disk, CONF_TIER_DISK));
	kv_set_u64(kv, "memkeep", get_keep(job, ds, memory, CONF_TIER_MEMORY));
	kv_set(kv, "memkeepdir",
	       memory && memory->max_keep_ms && !job->info.local ? memory->path : "");
}

/* Adds the memory limits and what other datasets were granted, so that the worker's plan agrees
 * with later grants. */
static void fill_memory(struct kv *kv, const struct job *job)
{
	struct memory_facts f;

	grant_get_facts(&job->grants, conf_get_tier(job->info.conf, "shm"), "shm", &f);
	memory_facts_to_kv(&f, kv);
}

static void fill_rules(struct kv *kv, const struct job *job, const struct stage *s)
{
	const struct conf *conf = job->info.conf;

	kv_set(kv, "rule", s->rule);
	kv_set(kv, "rulematch", s->rule_match);
	kv_set(kv, "web", s->web ? s->web : "");
	kv_set(kv, "methods", s->methods);
	kv_set(kv, "tiers", s->tiers);
	kv_set_u64(kv, "maxbytes", s->max_bytes);
	kv_set_u64(kv, "maxreaders", share(s->max_readers, count_readers(job, s)));
	kv_set_u64(kv, "maxrate", share(s->max_rate, count_readers(job, s)));
	fill_turns(kv, job, s->rule);
	conf_put_limits(conf, job->info.gres, kv);
	fill_memory(kv, job);
	kv_set_u64(kv, "cachesize", job_memory_get_cache(&job->memory));
	kv_set_u64(kv, "cachefirst", job_memory_get_first_cache(&job->memory));
	fill_keep(kv, job, s->dataset);
}

static void fill_place(struct kv *kv, const struct job *job, unsigned slot)
{
	kv_set_u64(kv, "job", job->info.job_id);
	kv_set(kv, "node", job->info.node);
	kv_set(kv, "user", job->info.identity.user);
	kv_set(kv, "rundir", job->info.rundir);
	kv_setf(kv, "data", "%s/" RUNDIR_DATA, job->info.rundir);
	kv_setf(kv, "tmp", "%s/" RUNDIR_TMP, job->info.rundir);
	kv_set_u64(kv, "slot", slot);
	kv_set_u64(kv, "keeper", job->launcher->mounts);
	kv_set_u64(kv, "nodes", job->info.n_nodes);
	kv_set_u64(kv, "nodeindex", job->info.node_index);
	if (job->info.conf->fanout != CONF_FANOUT_OFF) {
		kv_set_u64(kv, "fannodes", job->info.conf->fanout_min_nodes);
		kv_set_u64(kv, "fanalways", job->info.conf->fanout == CONF_FANOUT_SBCAST);
		kv_set(kv, "fanprogram", job->info.conf->fanout_program);
	}
}

struct kv *worker_task_new(const struct job *job, const struct stage *s, const char *mode,
			   unsigned slot)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_TASK);
	_cleanup_(freep) char *item = NULL;

	if (!kv || dataset_to_string(s->dataset, &item) < 0)
		return NULL;
	kv_set(kv, "mode", mode);
	kv_set(kv, "name", s->dataset->name);
	kv_set(kv, "item", item);
	fill_place(kv, job, slot);
	fill_rules(kv, job, s);
	return steal_ptr(kv);
}
