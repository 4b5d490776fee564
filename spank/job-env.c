#include "spank/job-env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "spank/step.h"

#define MAX_FILE (256 * 1024)
#define PREFIX "STAGE_DATA_"

/* Lists of bind mounts, joined by commas. */
static const char *const joined[] = {
	"APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH",
	"PYXIS_CONTAINER_MOUNTS",
};

static bool is_joined(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(joined); i++)
		if (!strcmp(name, joined[i]))
			return true;
	return false;
}

/* An inner step inherits what the batch step was given: not again then. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',') && (!p[n] || p[n] == ','))
			return true;
	return false;
}

static void set_joined(spank_t sp, const char *name, const char *value)
{
	_cleanup_(freep) char *old = step_get_env(sp, name), *both = NULL;

	if (!old || !*old)
		(void)spank_setenv(sp, name, value, 1);
	else if (*value && !has_word(old, value) && asprintf(&both, "%s,%s", old, value) >= 0)
		(void)spank_setenv(sp, name, both, 1);
}

static void set_line(spank_t sp, char *line)
{
	char *eq = strchr(line, '=');

	if (!eq)
		return;
	*eq = '\0';
	if (is_joined(line))
		set_joined(sp, line, eq + 1);
	else if (!strncmp(line, PREFIX, strlen(PREFIX)))
		(void)spank_setenv(sp, line, eq + 1, 1);
}

int job_env_copy(spank_t sp, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *text = NULL;
	char *line, *save = NULL;
	struct stat st;
	size_t size;
	int r;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = fd_read_file(fd, MAX_FILE, &text, &size);
	if (r < 0)
		return r;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		set_line(sp, line);
	return 0;
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

void job_env_drop(spank_t sp)
{
	char **env = NULL;

	/* Slurm moves its array with each removal. The bound is for a Slurm that doesn't remove. */
	for (int i = 0; i < 1024; i++)
		if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env ||
		    !drop_one(sp, env))
			return;
}
