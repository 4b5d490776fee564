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

bool srun_keeps_variable(const char *variable)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strncmp(variable, kept[i], strlen(kept[i])))
			return true;
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (!strncmp(variable, dropped[i], strlen(dropped[i])))
			return false;
	return true;
}
