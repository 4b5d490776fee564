/*
 * job: what stagingd serves: the datasets of one job on one node, the rules that hold for them, and
 * what is shared between them (launcher, budget, workers' places).
 *
 * The state of the job is computed from its datasets. A job that can't be served at all (its value
 * does not parse, the site's configuration is broken) has a failure beside them, which is the
 * answer to every wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config/conf.h"
#include "common/protocol/rundir.h"
#include "common/slurm/gres.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/stagingd/cpus.h"
#include "daemon/stagingd/identity.h"
#include "daemon/stagingd/job-end.h"
#include "daemon/stagingd/job-keys.h"
#include "daemon/stagingd/job-over.h"
#include "daemon/stagingd/loop.h"
#include "daemon/stagingd/job-metrics.h"

struct budget;
struct kv;
struct launcher;
struct stage;
struct stage_run;

#define JOB_MAX_RECORDS RUNDIR_MAX_SLOTS /* datasets at once, ended ones included */

struct job_options {
	bool local; /* no keeper */
	uint32_t job_id;
	const char *rundir;
	const char *worker; /* NULL: stage-worker beside us, or as installed */
	const char *conf;   /* NULL: as installed */
};

struct job {
	struct loop *loop;
	bool local;
	uint32_t job_id;
	char *rundir, *data_dir, *worker, *conf_path;
	struct identity identity;
	char *node, *partition, *array_task;
	uint32_t n_nodes, node_index; /* n_nodes 0: our place is not known */
	char spec_hash[17];	      /* of the configuration where the job was submitted */

	struct conf *conf; /* the defaults, where it could not be loaded; then there is a failure */
	bool permissive;
	struct launcher *launcher;
	struct budget *budget;

	bool memory_known; /* the limits below are final */
	uint64_t mem_limit, mem_used;
	uint64_t told_cache; /* what servers were told to keep (daemon/stagingd/servers.h) */
	struct loop_timer memory_timer;
	struct cpus cpus;     /* with a keeper */
	struct job_over over; /* the same */

	struct stage_run *runs[JOB_MAX_RECORDS];
	size_t n_runs;
	uint32_t next_id, next_worker_id;
	uint64_t slots; /* bit k: m/<k> is somebody's */

	struct job_keys keys;
	char gres[GRES_SIZE]; /* that it asked for */
	bool array;	      /* tasks of an array like this one may begin at the same time */
	bool env_first;	      /* keys=env: somebody will bring them soon */

	struct job_metrics metrics;

	struct error failure; /* code != 0: the answer to every wait */

	/* What follows for the whole job when a dataset changes: for job_changed() and
	 * job_schedule() alone, which the datasets call. */
	void (*after_change)(struct job *job, bool urgent);
	void (*start_queued)(struct job *job);

	struct job_end end;
	/* urgent: a state changed; else progress did. */
	void (*on_change)(void *arg, bool urgent);
	void *arg;
};

/* The launcher is made by it; keeper_fd: the socket to the keeper, taken over; -1 if local. */
int job_new(struct job **jobp, struct loop *loop, const struct job_options *options, int keeper_fd,
	    struct error *err);
void job_free(struct job *job);
DEFINE_FREEP(struct job, job_free)

/* Loads configuration and spec (read from spec_fd), writes the environment, starts what may be
 * started. What is wrong with them becomes the job's failure, not ours: -ENOMEM alone is. */
int job_start(struct job *job, int spec_fd, struct error *err);

struct stage *job_get_stage(const struct job *job, size_t i);
/* By the id that a stage keeps for life; NULL: it is not there any more. */
struct stage *job_find_stage(const struct job *job, uint32_t id);
/* Without regard to case. */
struct stage_run *job_find_run(const struct job *job, const char *name);

/* Adds one item, given as text. namep: lent until the dataset goes. */
int job_add(struct job *job, const char *item, const char **namep, struct error *err);
void job_release(struct job *job, struct stage_run *run);

/* What the paths of tiers are expanded with; lent. */
struct conf_expand job_get_expand(const struct job *job);

/* A dataset or the launcher tells the job: something has changed (urgent: a state), or what is
 * queued may be started now. */
void job_changed(struct job *job, bool urgent);
void job_schedule(struct job *job);
/* Places to mount at, m/<slot>. -ENOSPC: all are taken. */
int job_take_slot(struct job *job);
void job_return_slot(struct job *job, int slot);
