#include "spank/step-item.h"

#include <stdlib.h>

#include "common/dataset/dataset.h"
#include "common/util/cleanup.h"

#define MAX_ENV (DATASET_MAX_VALUE + 256)

char *step_get_env(spank_t sp, const char *name)
{
	_cleanup_(freep) char *value = NULL;
	char probe[1];
	spank_err_t e = spank_getenv(sp, name, probe, sizeof(probe));

	/* Most jobs have no datasets: allocate only if the variable exists. */
	value = e == ESPANK_SUCCESS || e == ESPANK_NOSPACE ? malloc(MAX_ENV) : NULL;
	return value && spank_getenv(sp, name, value, MAX_ENV) == ESPANK_SUCCESS ? steal_ptr(value)
										 : NULL;
}

/* In all components, SLURM_JOB_ID is the id of the first one. */
bool step_is_of_later_component(spank_t sp, uint32_t job_id)
{
	_cleanup_(freep) char *size = step_get_env(sp, "SLURM_HET_SIZE");
	_cleanup_(freep) char *first = size ? step_get_env(sp, "SLURM_JOB_ID") : NULL;

	return first && strtoul(first, NULL, 10) != job_id;
}
