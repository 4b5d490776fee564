/*
 * keeper-start: starts stage-keeper from inside Slurm's daemons, as root, and waits for it for a
 * short time.
 *
 * The keeper is no child of the caller: it has a session of its own, is adopted by init, and
 * holds none of the caller's descriptors, signals or variables.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_START_RUN_WAIT_MS 500
#define KEEPER_START_RUN_LIFE_MS                                                                   \
	(KEEPER_START_RUN_WAIT_MS + 200) /* never before the hook has said that it is late */
#define KEEPER_START_STEP_LIFE_MS 5000
#define KEEPER_START_CLEAN_WAIT_MS 8000
#define KEEPER_START_WHY_SIZE 512 /* of a sentence that tells why not */

struct keeper_start_job {
	uint32_t job_id, restart;
	uid_t uid;
	gid_t gid;
	bool in_step; /* started in a job step: leave its cgroups */
	/* Values of the job from Slurm's environment; NULL: unknown. They are not parsed. */
	const char *spec, *node, *nodelist, *n_nodes, *partition;
	const char *sluid; /* Slurm's name for this run of the job (common/protocol/sluid.h); NULL:
			      not known */
};

/*
 * `stage-keeper run`. 0: the job's directory exists. -ETIMEDOUT: it does not exist within
 * KEEPER_START_RUN_WAIT_MS. The keeper then continues if it has made a run directory, and otherwise
 * ends within KEEPER_START_RUN_LIFE_MS (in a step KEEPER_START_STEP_LIFE_MS). Other failures: why
 * (KEEPER_START_WHY_SIZE) has the reason. conf_path: NULL for the default.
 */
int keeper_start_run(const struct keeper_start_job *job, const char *conf_path, char *why);

/* `stage-keeper clean`: 0: it has ended. -ETIMEDOUT: it has not ended within
 * KEEPER_START_CLEAN_WAIT_MS, and continues. job_id 0: `stage-keeper reap`, without waiting. */
int keeper_start_clean(uint32_t job_id, const char *conf_path, char *why);

/* The program that is started; a test may set another one. */
extern const char *keeper_start_program;
