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
#include "spank/step-item.h"

/* Set in the batch step whose script was held, seen by the steps started from it. */
#define STEP_ENV_HELD "SLURM_SPANK_STAGE_HELD"

struct step {
	uint32_t job_id, step_id;
	uid_t uid;
	gid_t gid;
	uint32_t restart;
	char *spec; /* as published at submission (common/config/spec.h); opaque to root.
		     * NULL: staged here, but this step was not told what */
};

/*
 * 0: the job asked for datasets, and *stepp is set. -ENOENT: it did not; one look-up in the
 * environment and one of the run directory show this. -EXDEV: the environment is that of another
 * job, see below.
 *
 * The components of a heterogeneous job are jobs of their own, but share the first one's
 * environment. What that says of datasets is not theirs: spec is NULL in the later ones, and the
 * run directory tells whether they asked.
 */
int step_new(struct step **stepp, spank_t sp);
void step_free(struct step *step);
DEFINE_FREEP(struct step, step_free)

/* How the job waits. false: not readable, which only a forged value is. A later component of a
 * heterogeneous job is not told its mode, and nobody has waited for its nodes. */
bool step_get_wait(const struct step *step, enum conf_wait *waitp);

/* Is this the batch step of a job whose script is held? */
bool step_is_script_held(const struct step *step);

/* Is name in the job's run directory? Asks as the effective user. */
bool step_has_file(const struct step *step, const char *name);
