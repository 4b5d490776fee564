#include "client/srun-nodes.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/srun.h"
#include "common/util/parse.h"

#define SQUEUE_MS 10000

static uint32_t get_number(const char *name)
{
	uint32_t n;

	return parse_uint32(getenv(name) ?: "", &n) == 0 ? n : 0;
}

uint32_t srun_get_n_components(void)
{
	uint32_t n = get_number("SLURM_HET_SIZE");

	return n > 1 ? n : 1;
}

uint32_t srun_get_component_nodes(uint32_t component, uint32_t n)
{
	char name[64];
	uint32_t nodes;

	if (n > 1) {
		snprintf(name, sizeof(name), "SLURM_JOB_NUM_NODES_HET_GROUP_%u", component);
		nodes = get_number(name);
		if (nodes)
			return nodes;
	}
	nodes = get_number("SLURM_JOB_NUM_NODES");
	return nodes ? nodes : get_number("SLURM_NNODES");
}

uint32_t srun_get_n_nodes(void)
{
	uint32_t n = srun_get_n_components(), sum = 0;

	if (!get_number("SLURM_JOB_ID"))
		return 0;
	for (uint32_t i = 0; i < n; i++)
		sum += srun_get_component_nodes(i, n);
	return sum ? sum : 1;
}

static bool knows_n_nodes(void)
{
	return srun_get_n_components() > 1 || srun_get_component_nodes(0, 1);
}

/* In an ssh session on a node of the job, users set only SLURM_JOB_ID. The socket of this node then
 * exists, but the job may have other nodes. */
bool srun_is_needed(void)
{
	const uint32_t n = srun_get_n_nodes();
	char path[PATH_MAX];

	if (n != 1 || getenv("SLURMD_NODENAME"))
		return n > 1;
	return !knows_n_nodes() ||
	       (rpc_find_socket(path, sizeof(path), NULL) == 0 && access(path, F_OK) < 0);
}

static int set_number(const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return setenv(name, text, 1) < 0 ? -errno : 0;
}

static void resolve_job_id(void)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *const argv[] = { "squeue", "-h", "-o", "%A", "-j", job, NULL };
	_cleanup_(freep) char *text = NULL;
	unsigned id, part;
	char mark, rest;

	if (!job || sscanf(job, "%u%c%u%c", &id, &mark, &part, &rest) != 3 ||
	    (mark != '_' && mark != '+') || capture_run(argv, SQUEUE_MS, &text) != 0)
		return;
	if (sscanf(text, "%u", &id) == 1)
		(void)set_number("SLURM_JOB_ID", id);
}

/* Slurm sets both variables. A user who names another job changes only the first one. A number that
 * could not be resolved, such as that of an array's task that has ended, also names another job. */
static bool names_other_job(void)
{
	const char *job = getenv("SLURM_JOB_ID");
	const uint32_t own = get_number("SLURM_JOBID");

	return own && job && *job && get_number("SLURM_JOB_ID") != own;
}

void srun_resolve_job_id(void)
{
	resolve_job_id();
	if (names_other_job())
		srun_forget_own_job();
}

int srun_refuse(struct error *err, enum stage_exit code, const char *text)
{
	error_exit(err, code, EINVAL, "%s", text);
	return (int)code;
}

/* Parses a component in squeue's output. The output also lists other tasks of the array, or all
 * components. *firstp: the id that identifies the heterogeneous job, if it differs from job. */
static int take_component(const char *line, uint32_t job, uint32_t *firstp)
{
	unsigned id, first, index, n_nodes;
	char name[64];
	int r = 0;

	if (sscanf(line, "%u %u+%u %u", &id, &first, &index, &n_nodes) == 4) {
		if (id == job && first != job)
			*firstp = first;
		if (first != job || index >= SRUN_MAX_STEPS)
			return 0;
		snprintf(name, sizeof(name), "SLURM_JOB_NUM_NODES_HET_GROUP_%u", index);
		r = set_number(name, n_nodes);
		if (r == 0 && index >= srun_get_n_components())
			r = set_number("SLURM_HET_SIZE", index + 1);
	} else if (sscanf(line, "%u %*s %u", &id, &n_nodes) != 2) {
		return 0;
	}
	return r < 0 || id != job ? r : set_number("SLURM_JOB_NUM_NODES", n_nodes);
}

/* Explains why squeue lists no such running job: it is pending or has ended. */
static int refuse_job(const char *job, struct error *err)
{
	const char *const argv[] = { "squeue", "-h", "-t", "PD", "-o", "%T %r", "-j", job, NULL };
	_cleanup_(freep) char *text = NULL;
	char reason[64];

	if (capture_slurm(argv, SQUEUE_MS, &text) == 0 &&
	    sscanf(text, "PENDING %63[^\n]", reason) == 1)
		error_exit(err, STAGE_EXIT_NO_STAGING, EINVAL,
			   "job %s is pending (%s): nothing is staged yet", job, reason);
	else
		error_exit(err, STAGE_EXIT_NO_STAGING, EINVAL,
			   "job %s is not running, or squeue does not answer; the output of a job "
			   "that has ended says why it failed",
			   job);
	return STAGE_EXIT_NO_STAGING;
}

int srun_learn_n_nodes(struct error *err)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *const argv[] = { "squeue", "-h", "-t", "R", "-o", "%A %i %D", "-j", job, NULL };
	_cleanup_(freep) char *text = NULL;
	uint32_t first = 0;
	char *save = NULL;

	if (knows_n_nodes())
		return 0;
	if (capture_slurm(argv, SQUEUE_MS, &text) == 0)
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			if (take_component(line, get_number("SLURM_JOB_ID"), &first) < 0)
				return srun_refuse(err, STAGE_EXIT_FAILED, "out of memory");
	if (first) {
		error_exit(err, STAGE_EXIT_USAGE, EINVAL,
			   "job %s is a component of a heterogeneous job; ask by SLURM_JOB_ID=%u",
			   job, first);
		return STAGE_EXIT_USAGE;
	}
	if (srun_get_component_nodes(0, srun_get_n_components()))
		return 0;
	return refuse_job(job, err);
}
