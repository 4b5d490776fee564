#include "spank/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/dataset.h"
#include "common/rundir.h"
#include "common/spec.h"

#define MAX_ENV (DATASET_MAX_VALUE + 256)

void step_free(struct step *step)
{
	if (!step)
		return;
	free(step->spec);
	free(step);
}

char *step_get_env(spank_t sp, const char *name)
{
	_cleanup_(freep) char *value = NULL;
	char probe[1];
	spank_err_t e;

	/* Most jobs have nothing for us: no memory is taken before it is known that they do. */
	e = spank_getenv(sp, name, probe, sizeof(probe));
	if (e != ESPANK_SUCCESS && e != ESPANK_NOSPACE)
		return NULL;
	value = malloc(MAX_ENV);
	if (!value || spank_getenv(sp, name, value, MAX_ENV) != ESPANK_SUCCESS)
		return NULL;
	return steal_ptr(value);
}

bool step_has_file(const struct step *step, const char *name)
{
	char path[PATH_MAX];

	return rundir_path(path, sizeof(path), step->job_id, name) > 0 &&
	       faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0;
}

/* SLURM_JOB_ID is the first component's. */
static bool is_later_component(const struct step *step, spank_t sp)
{
	_cleanup_(freep) char *size = step_get_env(sp, "SLURM_HET_SIZE");
	_cleanup_(freep) char *first = size ? step_get_env(sp, "SLURM_JOB_ID") : NULL;

	return first && strtoul(first, NULL, 10) != step->job_id;
}

int step_new(struct step **stepp, spank_t sp)
{
	_cleanup_(freep) char *spec = step_get_env(sp, SPEC_ENV_JOB);
	_cleanup_(step_freep) struct step *step = NULL;
	struct step s = { 0 };
	bool foreign;

	if (spank_get_item(sp, S_JOB_ID, &s.job_id) != ESPANK_SUCCESS)
		return -EINVAL;
	foreign = spec && is_later_component(&s, sp);
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
