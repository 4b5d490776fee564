/*
 * job: what stagingd serves: the datasets of one job on one node, the rules that hold for them, and
 * what is shared between them (launcher, budget, workers' places).
 *
 * The state of the job is computed from its datasets. A job that cannot be served at all (its value
 * cannot be parsed, or the site's configuration has an error) has a failure, which is the answer to
 * every wait.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/stagingd/cpus.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job-end.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-keys.h"
#include "daemon/stagingd/job-memory.h"
#include "daemon/stagingd/job-metrics.h"
#include "daemon/stagingd/job-over.h"
#include "daemon/stagingd/job-runs.h"

struct launcher;
struct loop;
struct stage_run;

/* Each part is a subject with a file of its own. Functions take the parts that they need. */
struct job {
	struct loop *loop;
	struct job_info info;
	struct error failure; /* code != 0: the answer to every wait */
	struct launcher *launcher;

	struct job_runs runs;
	struct job_memory memory;
	struct grants grants;
	struct job_keys keys;
	struct job_metrics metrics;
	struct cpus cpus;     /* with a keeper */
	struct job_over over; /* the same */
	struct job_end end;

	/* What follows for the whole job when a dataset changes: for job_changed() and
	 * job_schedule() alone, which the datasets call. */
	void (*after_change)(struct job *job, bool urgent);
	void (*start_queued)(struct job *job);

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

/* Adds one item, given as text. namep: lent until the dataset goes. */
int job_add(struct job *job, const char *item, const char **namep, struct error *err);
void job_release(struct job *job, struct stage_run *run);

/* A dataset or the launcher tells the job: something has changed (urgent: a state), or what is
 * queued may be started now. */
void job_changed(struct job *job, bool urgent);
void job_schedule(struct job *job);
