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
	bool local; /* no keeper */
	uint32_t job_id;
	const char *rundir;
	const char *worker; /* NULL: stage-worker beside this program, or as installed */
	const char *conf;   /* NULL: as installed */
};

struct job_info {
	bool local;
	uint32_t job_id;
	char *rundir, *data_dir;
	char *worker;	 /* the program */
	char *conf_path; /* NULL: as installed */

	struct conf *conf; /* the defaults if it could not be loaded; then the job has a failure */
	bool permissive; /* no keeper, and the site has no rules for that: all paths are allowed */

	struct identity identity;
	char *node, *partition, *array_task;
	uint32_t n_nodes, node_index; /* n_nodes 0: the node's place is not known */

	char spec_hash[17];   /* of the configuration where the job was submitted */
	char gres[GRES_SIZE]; /* that it asked for */
	bool array;	      /* tasks of an array like this one may begin at the same time */
	bool env_first;	      /* keys=env: a client is expected to bring keys soon */
};

/* On failure, too, job_info_deinit() frees what was made. */
int job_info_init(struct job_info *info, const struct job_options *options, struct error *err);
void job_info_deinit(struct job_info *info);

/* Node, partition and place among the nodes, from the message that has the spec. */
int job_info_read_place(struct job_info *info, const struct kv *kv, struct error *err);

/* What the paths of tiers are expanded with; lent. */
struct conf_expand job_info_get_expand(const struct job_info *info);
