#include "spank/work-dir.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "spank/step.h"

static bool is_in_data(spank_t sp, const char *dir)
{
	char data[PATH_MAX];
	uint32_t job_id;
	int n;

	if (spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return false;
	n = rundir_path(data, sizeof(data), job_id, RUNDIR_DATA "/");
	return n > 0 && !strncmp(dir, data, (size_t)n);
}

void work_dir_enter(spank_t sp)
{
	_cleanup_(freep) char *dir = step_get_env(sp, "PWD"), *rank = NULL;
	char now[PATH_MAX];

	if (!dir || !is_in_data(sp, dir) || (getcwd(now, sizeof(now)) && !strcmp(now, dir)) ||
	    chdir(dir) < 0)
		return;
	rank = step_get_env(sp, "SLURM_PROCID");
	if (rank && !strcmp(rank, "0"))
		dprintf(STDERR_FILENO,
			"stage-data: the tasks begin in %s, although slurmstepd could not enter "
			"it\n",
			dir);
}
