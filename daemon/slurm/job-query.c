#include "daemon/slurm/job-query.h"

#include <errno.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "common/util/cleanup.h"
#include "daemon/slurm/job-line.h"
#include "daemon/slurm/node-names.h"

/* Returns true if the list "A,B" has this word. */
static bool is_in(const char *list, const char *word)
{
	const size_t size = strlen(word);

	for (;; list++) {
		const size_t n = strcspn(list, ",");

		if (n == size && !strncmp(list, word, n))
			return true;
		list += n;
		if (!*list)
			return false;
	}
}

static bool has_id(const slurm_job_info_t *job, uint32_t id)
{
	return job->job_id == id || job->array_job_id == id || job->het_job_id == id;
}

/* 1, 0, or -1: that can't be told. A job that is left out may be taken for one that is over. */
static int is_wanted(const struct job_query *q, const char *node, uint32_t id,
		     const slurm_job_info_t *job)
{
	uint32_t index, n;
	int r;

	if (!job->job_id || (id && !has_id(job, id)))
		return 0;
	if (q->has_uid && job->user_id != q->uid)
		return 0;
	if (q->states && !is_in(q->states, job_line_get_state(job)) &&
	    !is_in(q->states, job_line_get_running_state(job)))
		return 0;
	if (!node || !job->nodes)
		return !node;
	r = node_names_find(job->nodes, node, &index, &n);
	return r < 0 && r != -ENOENT ? -1 : r == 0;
}

static int load_job(job_info_msg_t **jobsp, uint32_t id)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
	slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;

	step.job_id = id;
	return slurm_load_job(jobsp, step, SHOW_ALL);
#else
	return slurm_load_job(jobsp, id, SHOW_ALL);
#endif
}

/* 0, errno's or Slurm's number, or -1. id: 0, or of one job. */
static int print_some(const struct job_query *q, const char *node, uint32_t id, FILE *out)
{
	job_info_msg_t *jobs = NULL;
	int r;

	if (id)
		r = load_job(&jobs, id);
	else if (q->has_uid)
		r = slurm_load_job_user(&jobs, q->uid, SHOW_ALL);
	else
		r = slurm_load_jobs(0, &jobs, SHOW_ALL);
	if (r != SLURM_SUCCESS)
		return errno ?: EIO;
	for (uint32_t i = 0; i < jobs->record_count && r == 0; i++) {
		r = is_wanted(q, node, id, &jobs->job_array[i]);
		if (r > 0)
			r = job_line_print(out, q->format, &jobs->job_array[i]);
	}
	slurm_free_job_info_msg(jobs);
	return r < 0 ? -1 : 0;
}

/* The controller knows a node by its name and by its host's. *namep is freed by the caller. */
static int find_node(const char *asked, char **namep)
{
	_cleanup_(freep) char *copy = strdup(asked);
	node_info_msg_t *nodes = NULL;
	int r = 0;

	if (!copy)
		return ENOMEM;
	if (slurm_load_node_single(&nodes, copy, SHOW_ALL) != SLURM_SUCCESS)
		return errno ?: EIO;
	if (nodes->record_count == 1 && nodes->node_array[0].name)
		*namep = strdup(nodes->node_array[0].name);
	else
		r = ESLURM_INVALID_NODE_NAME;
	slurm_free_node_info_msg(nodes);
	return r == 0 && !*namep ? ENOMEM : r;
}

int job_query_print(const struct job_query *q, FILE *out)
{
	_cleanup_(freep) char *node = NULL;
	int r = q->node ? find_node(q->node, &node) : 0;

	if (r == 0 && q->n_ids == 0)
		r = print_some(q, node, 0, out);
	for (size_t i = 0; i < q->n_ids && r == 0; i++) {
		r = print_some(q, node, q->ids[i], out);
		if (r == ESLURM_INVALID_JOB_ID && q->n_ids > 1)
			r = 0;
	}
	return r;
}
