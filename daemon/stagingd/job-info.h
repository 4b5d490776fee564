/*
 * job-info: data that does not change after a job is loaded: its directories, its user, the place
 * of this node among its nodes, its items, and the site's configuration.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/config/conf.h"
#include "common/slurm/gres.h"
#include "daemon/stagingd/identity.h"

struct error;
struct kv;

struct job_options {
	bool local; /* there is no keeper */
	uint32_t job_id;
	const char *rundir;
	const char *worker; /* NULL: stage-worker in the directory of this program, else the
			     * installed one */
	const char *conf;   /* NULL: the installed file */
};

struct job_info {
	bool local;
	uint32_t job_id;
	char *rundir, *data_dir;
	char *worker;	 /* path of the worker program */
	char *conf_path; /* NULL: the installed file */

	struct conf *conf; /* the defaults if the file could not be loaded; then job->failure is
			    * set */
	bool permissive;   /* without a keeper, and the site has no rules for such runs: all paths
			    * are allowed */

	struct identity identity;
	char *node, *partition, *array_task;
	uint32_t n_nodes, node_index; /* n_nodes 0: the place of this node is not known */

	char spec_hash[17];   /* hash of the configuration on the submit host */
	char gres[GRES_SIZE]; /* the job's requested generic resources */
	bool array;	      /* the job is one task of an array; other tasks may begin at the
			       * same time */
	bool env_first;	      /* keys=env: a client is expected to bring keys soon */
};

/* If it fails, the caller still calls job_info_deinit(). Returns 0 or an error with err set. */
int job_info_init(struct job_info *info, const struct job_options *options, struct error *err);
void job_info_deinit(struct job_info *info);

/* Reads node, partition and the node's place from the message that contains the spec. */
int job_info_read_place(struct job_info *info, const struct kv *kv, struct error *err);

/* Returns the values for placeholders in the paths of tiers; the strings are lent. */
struct conf_expand job_info_get_expand(const struct job_info *info);
