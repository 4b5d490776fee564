/*
 * spank: the functions that a plugin finds in psid, of which there are no others, and the one job
 * that they are about.
 *
 * psslurm differs from slurmd in what the plugin can learn: cores are never known, the count of
 * restarts only where there is a job script, job control only at submission; an environment
 * variable is looked for in the step, the job and in psid's own process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#define JOB_MAX_ENV 256

enum spank_hook {
	HOOK_SLURMD_INIT,
	HOOK_JOB_PROLOG,
	HOOK_INIT,
	HOOK_INIT_POST_OPT,
	HOOK_USER_INIT,
	HOOK_TASK_INIT_PRIVILEGED,
	HOOK_TASK_INIT,
	HOOK_TASK_POST_FORK,
	HOOK_TASK_EXIT,
	HOOK_JOB_EPILOG,
	HOOK_EXIT,
	HOOK_SLURMD_EXIT,
};

enum job_step {
	STEP_NONE, /* prologue and epilogue: the allocation is known */
	STEP_BATCH,
	STEP_OF_TASKS,
};

struct job {
	uint32_t id;
	uid_t uid;
	gid_t gid;
	enum job_step step;
	char *env[JOB_MAX_ENV + 1];
};

extern struct job job;

const char *spank_hook_get_name(enum spank_hook hook);

/* What the functions answer depends on the hook that calls them. */
void spank_enter(enum spank_hook hook);
spank_t spank_get_handle(void);

/* "ID UID GID"; false: malformed. */
bool spank_new_job(const char *text);

/* "NAME=VALUE"; false: malformed, or too many. */
bool spank_put_env(const char *text);

/* Options that were given are in the job's environment; psslurm calls their functions by these. */
void spank_call_options(void);

/* From now on each change of the environment is written to fd (-1: no more), a text with its end;
 * and the other end, which reads them all until the fd is closed. */
void spank_tell_changes(int fd);
void spank_take_changes(int fd);
