#include "daemon/stagingd/job-load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/config/spec.h"
#include "common/policy/source-rules.h"
#include "common/protocol/kv.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

static void set_failure(struct job *job, const struct error *err, enum stage_exit code)
{
	if (job->failure.code)
		return;
	job->failure = *err;
	if (!job->failure.exit_code)
		job->failure.exit_code = code;
	log_error("%s", err->text);
}

static int read_spec(int fd, struct kv **kvp, struct error *err)
{
	_cleanup_(freep) char *data = NULL;
	size_t size;
	int r;

	if (lseek(fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
		return error_errno(err, errno, "read the job's spec");
	r = fd_read_file(fd, KV_MAX_SIZE, &data, &size);
	if (r < 0)
		return error_errno(err, -r, "read the job's spec");
	r = kv_new_from_data(kvp, data, size);
	if (r != 0)
		return error_set(err, r < 0 ? -r : EPROTO, "the job's spec is damaged");
	return 0;
}

static int read_datasets(struct job *job, const struct kv *kv, char hash[static 17],
			 struct error *err)
{
	struct dataset_list list = { 0 };
	struct spec spec = { 0 };
	int r;

	r = spec_from_string(&spec, kv_get_or_empty(kv, SPEC_KEY_SPEC), err);
	if (r < 0)
		return r;
	strcpy(hash, spec.conf_hash);
	job->info.array = spec.array;
	strcpy(job->info.gres, spec.gres);
	job->info.env_first = job->info.local || spec.wait != CONF_WAIT_NO;
	r = dataset_list_from_string(&list, spec.value, err);
	spec_deinit(&spec);
	if (r < 0)
		return error_exit(err, STAGE_EXIT_USAGE, -r, "--stage-data: %s", err->text);
	for (size_t i = 0; i < list.n_items && r == 0; i++)
		r = job_load_dataset(job, &list.items[i], NULL, err);
	dataset_list_deinit(&list);
	return r;
}

void job_load_spec(struct job *job, int fd)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct error err = ERROR_INIT;
	int r;

	r = read_spec(fd, &kv, &err);
	if (r == 0)
		r = job_info_read_place(&job->info, kv, &err);
	if (r == 0)
		r = read_datasets(job, kv, job->info.spec_hash, &err);
	if (r < 0)
		set_failure(job, &err, STAGE_EXIT_USAGE);
}

int job_load_conf(struct job *job, const char *path)
{
	struct error err = ERROR_INIT;

	if (conf_load(&job->info.conf, path, &err) < 0) {
		set_failure(job, &err, STAGE_EXIT_REFUSED);
		return conf_new(&job->info.conf);
	}
	job->info.permissive = job->info.local && conf_run_is_free(job->info.conf);
	return 0;
}

void job_load_user(struct job *job)
{
	const char *partition = *job->info.partition ? job->info.partition : NULL;
	struct error err = ERROR_INIT;

	int r;

	r = job->info.local
		    ? conf_admit_run(job->info.conf, job->info.identity.user, partition, &err)
		    : conf_admit(job->info.conf, job->info.identity.user, partition, &err);
	if (r < 0)
		set_failure(job, &err, STAGE_EXIT_REFUSED);
	if (strspn(job->info.spec_hash, "0") != strlen(job->info.spec_hash) &&
	    strcmp(job->info.spec_hash, job->info.conf->hash))
		log_warning("the configuration differs from that of the submit host; the one of "
			    "this node is used");
}

int job_load_dataset(struct job *job, struct dataset *d, struct stage_run **runp, struct error *err)
{
	_cleanup_(stage_freep) struct stage *s = NULL;
	struct stage_run *run;
	int r;

	if (job->runs.n >= JOB_MAX_RECORDS)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM, "more than %d datasets in a job",
				  JOB_MAX_RECORDS);
	r = stage_new(&s, job->runs.next_id, d);
	if (r == 0)
		history_add_state(&s->history, STAGE_QUEUED, clock_ms());
	if (r == 0)
		r = stage_run_new(&run, job, s);
	if (r < 0)
		return error_errno(err, -r, "new dataset");
	s = NULL;
	job->runs.next_id++;
	(void)job_runs_add(&job->runs, run); /* cannot fail, because the number was checked above */
	if (runp)
		*runp = run;
	return 0;
}

/* Counts the datasets before run in the list that are neither released nor failed. */
static size_t count_before(const struct job *job, const struct stage_run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < job->runs.n && job->runs.runs[i] != run; i++) {
		enum stage_state state = job_runs_get_stage(&job->runs, i)->state;

		if (state != STAGE_RELEASED && state != STAGE_FAILED)
			n++;
	}
	return n;
}

static int check_shard(const struct job *job, const struct dataset *d, struct error *err)
{
	if (d->shard == DATASET_SHARD_ALL || job->info.n_nodes > 0)
		return 0;
	return error_set(err, EINVAL,
			 "shard=: the place of node %s among the nodes of the job is not known",
			 job->info.node);
}

int job_load_admit(struct job *job, struct stage_run *run, struct error *err)
{
	struct stage *s = stage_run_get_stage(run);
	const struct source_rules_input in = {
		.conf = job->info.conf,
		.user = job->info.identity.user,
		.groups = (const char *const *)job->info.identity.groups,
		.n_groups = job->info.identity.n_groups,
		.gres = job->info.gres,
		.permissive = job->info.permissive,
		.expand = job_info_get_expand(&job->info),
	};
	struct source_rules a = { 0 };
	int r;

	/* an error in the job's value does not concern an item that is added later */
	if (job->failure.code && job->failure.exit_code != STAGE_EXIT_USAGE) {
		*err = job->failure;
		return err->code;
	}
	if (job->info.conf->max_items && count_before(job, run) >= job->info.conf->max_items)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "more than MaxItems=%u datasets of this site",
				  job->info.conf->max_items);
	r = check_shard(job, s->dataset, err);
	if (r == 0)
		r = source_rules_apply(&a, &in, s->dataset, err);
	if (r < 0)
		return r;
	s->rule = a.rule;
	s->rule_match = a.rule_match;
	s->web = a.web;
	s->methods = a.methods;
	s->tiers = a.tiers;
	s->max_bytes = a.max_bytes;
	s->max_readers = a.max_readers;
	s->max_rate = a.max_rate;
	return 0;
}
