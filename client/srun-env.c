/*
 * The environment of a step of ours: nearly every option of srun is also a variable, and a job
 * script is full of them (SLURM_CPUS_PER_TASK, SLURM_MEM_PER_CPU, SLURM_HINT, …); new ones come
 * with each release. So what says which job this is is kept and the rest of SLURM_* is not.
 *
 * Options of other plugins (a container, a view of the file system) are not passed on either: the
 * step has to be where the job's daemon is.
 */
#include "client/srun.h"

#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"

static const char *const kept[] = {
	"SLURM_JOB_ID=",
	"SLURM_JOBID=",
	"SLURM_JOB_ID_HET_GROUP_",
	"SLURM_JOB_NODELIST",
	"SLURM_JOB_NUM_NODES",
	"SLURM_JOB_CPUS_PER_NODE",
	"SLURM_JOB_PARTITION=",
	"SLURM_JOB_ACCOUNT=",
	"SLURM_JOB_QOS=",
	"SLURM_JOB_UID=",
	"SLURM_JOB_USER=",
	"SLURM_JOB_GID=",
	"SLURM_NODELIST=",
	"SLURM_NNODES=",
	"SLURM_TASKS_PER_NODE=",
	"SLURM_NODE_ALIASES=",
	"SLURM_CLUSTER_NAME=",
	"SLURM_CLUSTERS=",
	"SLURM_CONF=",
	"SLURM_JWT=",
	"SLURM_HET_SIZE=",
	"SLURM_PACK_SIZE=",
	"SLURM_ARRAY_",
	"SLURM_SUBMIT_",
	"SLURM_RESTART_COUNT=",
	"SLURM_SPANK_STAGE_",
	"SLURM_SPANK__SLURM_SPANK_OPTION_stage_data_",
	"SLURMD_",
};

static const char *const dropped[] = {
	"SRUN_", /* such as SRUN_DEBUG, SRUN_CPUS_PER_TASK, SRUN_CONTAINER */
	"SLURM_",
};

/* These variables do not belong to a job. */
static const char *const of_no_job[] = {
	"SLURM_JOB_ID=", "SLURM_CLUSTER_NAME=", "SLURM_CLUSTERS=", "SLURM_CONF=", "SLURM_JWT=",
};

static const char *const of_job[] = { "SLURM_", "SLURMD_",
				      "STAGE_DATA_SOCKET=", "STAGE_DATA_DIR=" };

static bool begins_with_one(const char *variable, const char *const *texts, size_t n_texts)
{
	for (size_t i = 0; i < n_texts; i++)
		if (!strncmp(variable, texts[i], strlen(texts[i])))
			return true;
	return false;
}

void srun_forget_own_job(void)
{
	size_t n = 0;

	for (char **e = environ; *e; e++)
		if (begins_with_one(*e, of_no_job, ARRAY_SIZE(of_no_job)) ||
		    !begins_with_one(*e, of_job, ARRAY_SIZE(of_job)))
			environ[n++] = *e;
	environ[n] = NULL;
}

bool srun_keeps_variable(const char *variable)
{
	return begins_with_one(variable, kept, ARRAY_SIZE(kept)) ||
	       !begins_with_one(variable, dropped, ARRAY_SIZE(dropped));
}
