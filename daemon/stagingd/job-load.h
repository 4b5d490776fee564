/*
 * job-load: makes the list of datasets that may be staged from the spec and the site's
 * configuration.
 */
#pragma once

struct dataset;
struct error;
struct job;
struct stage_run;

/* Reads the spec from fd into the job: node, place among the nodes, and its datasets, queued. What
 * is wrong with it becomes job->failure. */
void job_load_spec(struct job *job, int fd);

/* Loads the configuration, as above; -ENOMEM if there are not even defaults. */
int job_load_conf(struct job *job, const char *path);

/* May this user, in this partition, stage at all? As above. */
void job_load_user(struct job *job);

/* Makes a run of *d (zeroed then) and appends it. */
int job_load_dataset(struct job *job, struct dataset *d, struct stage_run **runp,
		     struct error *err);

/* Lets the rules decide on a queued dataset: 0, or the refusal, which the caller applies. */
int job_load_admit(struct job *job, struct stage_run *run, struct error *err);
