#include "spank/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/spec.h"
#include "common/protocol/rundir.h"

#define MAX_ENV (DATASET_MAX_VALUE + 256)

char *step_get_env(spank_t sp, const char *name)
{
	_cleanup_(freep) char *value = malloc(MAX_ENV);

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

void step_free(struct step *step)
{
	if (!step)
		return;
	free(step->spec);
	free(step);
}

bool step_has_file(const struct step *step, const char *name)
{
	char path[PATH_MAX];

	return rundir_path(path, sizeof(path), step->job_id, name) > 0 &&
	       faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0;
}

int step_new(struct step **stepp, spank_t sp)
{
	_cleanup_(freep) char *spec = step_get_env(sp, SPEC_ENV_JOB);
	_cleanup_(step_freep) struct step *step = NULL;
	struct step s = { 0 };
	bool foreign;

	if (spank_get_item(sp, S_JOB_ID, &s.job_id) != ESPANK_SUCCESS)
		return -EINVAL;
	foreign = spec && step_is_of_later_component(sp, s.job_id);
	if ((!spec || foreign) && !step_has_file(&s, NULL))
		return foreign ? -EXDEV : -ENOENT;
	if (spank_get_item(sp, S_JOB_STEPID, &s.step_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &s.uid) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_GID, &s.gid) != ESPANK_SUCCESS)
		return -EINVAL;
	(void)spank_get_item(sp, S_SLURM_RESTART_COUNT, &s.restart);
	step = malloc(sizeof(*step));
	if (!step)
		return -ENOMEM;
	*step = s;
	step->spec = foreign ? NULL : steal_ptr(spec);
	*stepp = steal_ptr(step);
	return 0;
}

bool step_get_wait(const struct step *step, enum conf_wait *waitp)
{
	struct spec spec = { 0 };

	*waitp = CONF_WAIT_TASKS;
	if (!step->spec)
		return true;
	if (spec_from_string(&spec, step->spec, NULL) < 0)
		return false;
	*waitp = spec.wait;
	spec_deinit(&spec);
	return true;
}

bool step_is_script_held(const struct step *step)
{
	enum conf_wait wait;

	return step->step_id == SLURM_BATCH_SCRIPT && step_get_wait(step, &wait) &&
	       wait == CONF_WAIT_SCRIPT;
}
