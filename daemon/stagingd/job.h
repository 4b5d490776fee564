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

/* Each part has its own file. Functions take only the parts that they need. */
struct job {
	struct loop *loop;
	struct job_info info;
	struct error failure; /* if code != 0: the answer to every wait */
	struct launcher *launcher;

	struct job_runs runs;
	struct job_memory memory;
	struct grants grants;
	struct job_keys keys;
	struct job_metrics metrics;
	struct cpus cpus;     /* used with a keeper only */
	struct job_over over; /* used with a keeper only */
	struct job_end end;

	/* Actions for the whole job after a dataset has changed. They are pointers, so that
	 * stage-run does not call job.c, which calls stage-run. Only job_changed() and
	 * job_schedule() use them; datasets call those. */
	void (*after_change)(struct job *job, bool urgent);
	void (*start_queued)(struct job *job);

	/* Called after a change. urgent: a state changed; else only progress. */
	void (*on_change)(void *arg, bool urgent);
	void *arg;
};

/* Also makes the launcher. keeper_fd: the socket to the keeper, taken over; -1: no keeper. */
int job_new(struct job **jobp, struct loop *loop, const struct job_options *options, int keeper_fd,
	    struct error *err);
void job_free(struct job *job);
DEFINE_FREEP(struct job, job_free)

/* Loads the configuration and the spec (read from spec_fd), writes the environment file and starts
 * datasets. Errors in configuration or spec become job->failure. Returns 0, or an error with err
 * set if memory runs out. */
int job_start(struct job *job, int spec_fd, struct error *err);

/* Adds one item, given as text. *namep: its name, valid as long as the dataset exists. Returns 0 or
 * an error with err set. */
int job_add(struct job *job, const char *item, const char **namep, struct error *err);
void job_release(struct job *job, struct stage_run *run);

/* Called by a dataset or the launcher: after a change (urgent: of a state), and when queued
 * datasets may be started. */
void job_changed(struct job *job, bool urgent);
void job_schedule(struct job *job);
