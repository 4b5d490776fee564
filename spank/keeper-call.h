/*
 * keeper-call: runs stage-keeper from inside Slurm's daemons, as root, at the start and at the end
 * of a job. Waits for a short time: the prolog KEEPER_CALL_RUN_WAIT_MS, the epilog
 * KEEPER_CALL_CLEAN_WAIT_MS.
 *
 * The keeper is no child of the caller: it has a session of its own, is adopted by init, and
 * holds none of the caller's descriptors, signals or variables.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/prolog-epilog-waits.h"

#define KEEPER_CALL_WHY_SIZE 512 /* of the sentence with the reason for a failure */

struct keeper_call_job {
	uint32_t job_id, restart;
	uid_t uid;
	gid_t gid;
	bool in_step; /* started in a job step, whose cgroups it must leave */
	/* Values of the job from Slurm's environment; NULL: unknown. They are not parsed. */
	const char *spec, *node, *nodelist, *n_nodes, *partition;
	/* Slurm's name for this run of the job (common/protocol/sluid.h); NULL: not known */
	const char *sluid;
};

/*
 * Runs `stage-keeper run`. Returns 0: the job's directory exists; -ETIMEDOUT: it did not exist
 * within KEEPER_CALL_RUN_WAIT_MS; -errno for other failures, with the reason in why
 * (KEEPER_CALL_WHY_SIZE bytes). After -ETIMEDOUT, the keeper continues if it makes a run
 * directory, and otherwise ends within KEEPER_CALL_RUN_LIFE_MS (in a step
 * KEEPER_CALL_STEP_LIFE_MS). conf_path: NULL for the default.
 */
int keeper_call_run(const struct keeper_call_job *job, const char *conf_path, char *why);

/* Runs `stage-keeper clean`. Returns 0: it has ended; -ETIMEDOUT: it has not ended within
 * KEEPER_CALL_CLEAN_WAIT_MS, and continues. job_id 0: runs `stage-keeper reap` and does not
 * wait. */
int keeper_call_clean(uint32_t job_id, const char *conf_path, char *why);

/* The program to start; tests set another one. */
extern const char *keeper_call_program;
