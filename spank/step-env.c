#include "spank/step-env.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/clock.h"
#include "spank/wait-ready.h"
#include "spank/job-env.h"
#include "spank/step.h"

#define ENV_WAIT_MS 2000
#define ENV_POLL_US 5000

/* What stands fixed from the start, should the daemon not have told within the time. */
static void set_fixed(spank_t sp, const struct step *step)
{
	char path[PATH_MAX];

	if (rundir_path(path, sizeof(path), step->job_id, RUNDIR_SOCK) > 0)
		(void)spank_setenv(sp, "STAGE_DATA_SOCKET", path, 1);
	if (rundir_path(path, sizeof(path), step->job_id, RUNDIR_DATA) > 0)
		(void)spank_setenv(sp, "STAGE_DATA_DIR", path, 1);
}

static bool wait_for_env(const struct step *step)
{
	uint64_t deadline_ms = clock_ms() + ENV_WAIT_MS;

	while (!step_has_file(step, RUNDIR_ENV)) {
		if (!step_has_file(step, NULL) || step_has_file(step, RUNDIR_FAILED) ||
		    clock_ms() >= deadline_ms)
			return false;
		usleep(ENV_POLL_US);
	}
	return true;
}

void step_env_copy(spank_t sp, const struct step *step)
{
	char path[PATH_MAX];

	if (rundir_path(path, sizeof(path), step->job_id, RUNDIR_ENV) > 0)
		(void)job_env_copy(sp, path);
}

void step_env_set(spank_t sp)
{
	_cleanup_(step_freep) struct step *step = NULL;
	int r;

	r = step_new(&step, sp);
	if (r == -EXDEV || (r == 0 && !step->spec))
		job_env_drop(sp);
	if (r < 0)
		return;
	if (wait_ready_is_script_held(step))
		(void)spank_setenv(sp, WAIT_READY_ENV_HELD, "1", 1);
	/* Where staging could not begin, the path that is not there says so. */
	if (!step_has_file(step, RUNDIR_FAILED))
		job_env_place(sp, step->job_id);
	set_fixed(sp, step);
	if (wait_for_env(step))
		step_env_copy(sp, step);
}
