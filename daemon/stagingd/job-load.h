/*
 * job-load: makes the list of datasets that may be staged from the spec and the site's
 * configuration.
 */
#pragma once

struct dataset;
struct error;
struct job;
struct stage_run;

/* Reads the spec from fd into the job: node, its place among the nodes, and the datasets, which are
 * queued. An error in the spec becomes job->failure. */
void job_load_spec(struct job *job, int fd);

/* Loads the configuration. An error in it becomes job->failure, and defaults are used. Returns 0,
 * or -ENOMEM if not even defaults could be made. */
int job_load_conf(struct job *job, const char *path);

/* Checks whether this user may stage in this partition. A refusal becomes job->failure. */
void job_load_user(struct job *job);

/* Makes a run from *d, which is zeroed, and appends it to the job. Returns 0 or an error with err
 * set. runp may be NULL. */
int job_load_dataset(struct job *job, struct dataset *d, struct stage_run **runp,
		     struct error *err);

/* Checks a queued dataset against the rules. Returns 0, or the refusal in err, which the caller
 * applies. */
int job_load_admit(struct job *job, struct stage_run *run, struct error *err);
