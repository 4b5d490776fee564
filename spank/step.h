/*
 * step: what a job step on a node knows of itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "spank/slurm-compat.h"

/* Returns the value of a variable in the step's environment, or NULL if it is not set. The caller
 * frees. */
char *step_get_env(spank_t sp, const char *name);

/* Returns whether the job is a component of a heterogeneous job other than the first. It then has
 * the environment of the first component. */
bool step_is_of_later_component(spank_t sp, uint32_t job_id);

/* Set in a batch step whose script was held. The steps that the script starts inherit it. */
#define STEP_ENV_HELD "SLURM_SPANK_STAGE_HELD"

struct step {
	uint32_t job_id, step_id;
	uid_t uid;
	gid_t gid;
	uint32_t restart;
	char *spec; /* as published at submission (common/config/spec.h); root does not parse it.
		     * NULL: there are datasets, but this step does not know them */
};

/*
 * Returns 0 with *stepp if the job asked for datasets. Returns -ENOENT if it did not, after one
 * look-up in the environment and one of the run directory. Returns -EXDEV if the environment is
 * that of another job.
 *
 * The components of a heterogeneous job are separate jobs, but share the environment of the first
 * one. Its datasets are not theirs. So spec is NULL in later components, and the run directory
 * shows whether they asked.
 */
int step_new(struct step **stepp, spank_t sp);
void step_free(struct step *step);
DEFINE_FREEP(struct step, step_free)

/* Gets the job's wait mode. Returns false if it is malformed, which happens only if the value was
 * forged. A later component of a heterogeneous job does not know its mode, and its nodes were not
 * waited for. */
bool step_get_wait(const struct step *step, enum conf_wait *waitp);

/* Returns whether this is the batch step of a job whose script is held. */
bool step_is_script_held(const struct step *step);

/* Returns whether the job's run directory contains name. Checks as the effective user. */
bool step_has_file(const struct step *step, const char *name);
