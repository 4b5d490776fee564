#include "spank/step-env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/env-join.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/strutil.h"
#include "spank/step.h"

#define MAX_FILE (256 * 1024)
#define PREFIX "STAGE_DATA_"
#define ENV_WAIT_MS 2000
#define ENV_POLL_US 5000
#define MAX_VARIABLES 1024 /* limits the loops if a Slurm does not remove or replace variables */

static void set_joined(spank_t sp, const char *name, const char *value)
{
	_cleanup_(freep) char *old = step_get_env(sp, name), *both = env_join(name, old, value);

	if (both && (!old || strcmp(both, old)))
		(void)spank_setenv(sp, name, both, 1);
}

static void set_line(spank_t sp, char *line)
{
	char *eq = strchr(line, '=');

	if (!eq)
		return;
	*eq = '\0';
	if (env_join_is_list(line))
		set_joined(sp, line, eq + 1);
	else if (!strncmp(line, PREFIX, strlen(PREFIX)))
		(void)spank_setenv(sp, line, eq + 1, 1);
}

/* Opens the file if it is a regular file of the effective user. Returns a descriptor or -errno. */
static int open_own(const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/* the job id was used before by a job of another user, which has not been cleaned up yet */
	if (st.st_uid != geteuid())
		return -EPERM;
	return steal_fd(&fd);
}

int step_env_copy(spank_t sp, const char *path)
{
	_cleanup_(fd_closep) int fd = open_own(path);
	_cleanup_(freep) char *text = NULL;
	char *line, *save = NULL;
	size_t size;
	int r;

	if (fd < 0)
		return fd;
	r = fd_read_file(fd, MAX_FILE, &text, &size);
	if (r < 0)
		return r;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		set_line(sp, line);
	return 0;
}

/* Returns the rest of a path after RUNDIR_NOT_STAGED, or NULL for another path. */
static const char *find_rest(const char *value)
{
	const size_t n = sizeof(RUNDIR_NOT_STAGED) - 1;

	return !strncmp(value, RUNDIR_NOT_STAGED, n) && (!value[n] || value[n] == '/') ? value + n
										       : NULL;
}

static bool place(spank_t sp, uint32_t job_id, const char *name, const char *rest)
{
	bool is_list = !strncmp(name, PREFIX "LIST_", sizeof(PREFIX "LIST_") - 1);
	char dir[PATH_MAX];
	_cleanup_(freep) char *value = NULL;

	if (rundir_path(dir, sizeof(dir), job_id, is_list ? RUNDIR_PRIVATE : RUNDIR_DATA) < 0)
		return false;
	value = strutil_printf("%s%s", dir, rest);
	if (!value)
		return false;
	return spank_setenv(sp, name, value, 1) == ESPANK_SUCCESS;
}

static bool place_one(spank_t sp, uint32_t job_id, char **env)
{
	for (; *env; env++) {
		char name[256];
		size_t n = strcspn(*env, "=");
		const char *rest;

		if (strncmp(*env, PREFIX, strlen(PREFIX)) || !(*env)[n] || n >= sizeof(name))
			continue;
		rest = find_rest(*env + n + 1);
		if (!rest)
			continue;
		memcpy(name, *env, n);
		name[n] = '\0';
		return place(sp, job_id, name, rest);
	}
	return false;
}

void step_env_place(spank_t sp, uint32_t job_id)
{
	char **env = NULL;

	/* Slurm may move its array at each replacement. */
	for (int i = 0; i < MAX_VARIABLES; i++)
		if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env ||
		    !place_one(sp, job_id, env))
			return;
}

static bool drop_one(spank_t sp, char **env)
{
	for (; *env; env++) {
		char name[256];
		size_t n = strcspn(*env, "=");

		if (strncmp(*env, PREFIX, strlen(PREFIX)) || n >= sizeof(name))
			continue;
		memcpy(name, *env, n);
		name[n] = '\0';
		return spank_unsetenv(sp, name) == ESPANK_SUCCESS;
	}
	return false;
}

void step_env_drop(spank_t sp)
{
	char **env = NULL;

	/* Slurm moves its array at each removal. */
	for (int i = 0; i < MAX_VARIABLES; i++)
		if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env ||
		    !drop_one(sp, env))
			return;
}

/* Sets the values that are known from the start, in case the daemon does not write its file in
 * time. */
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

void step_env_refresh(spank_t sp, const struct step *step)
{
	char path[PATH_MAX];

	if (rundir_path(path, sizeof(path), step->job_id, RUNDIR_ENV) > 0)
		(void)step_env_copy(sp, path);
}

void step_env_set(spank_t sp)
{
	_cleanup_(step_freep) struct step *step = NULL;
	int r;

	r = step_new(&step, sp);
	if (r == -EXDEV || (r == 0 && !step->spec))
		step_env_drop(sp);
	if (r < 0)
		return;
	if (step_is_script_held(step))
		(void)spank_setenv(sp, STEP_ENV_HELD, "1", 1);
	/* If staging could not begin, keep the path that does not exist: its name is the
	 * message. */
	if (!step_has_file(step, RUNDIR_FAILED))
		step_env_place(sp, step->job_id);
	set_fixed(sp, step);
	if (wait_for_env(step))
		step_env_refresh(sp, step);
}
