#include "tests/psslurm/spank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_OPTIONS 8
#define OPTION_PREFIX "_SLURM_SPANK_OPTION_stage_data_"

struct job job;

static enum spank_hook current;
static int changes_fd = -1;
static struct spank_option options[MAX_OPTIONS];
static size_t n_options;
static int handle;

const char *spank_hook_get_name(enum spank_hook hook)
{
	static const char *const names[] = {
		[HOOK_SLURMD_INIT] = "slurm_spank_init",
		[HOOK_JOB_PROLOG] = "slurm_spank_job_prolog",
		[HOOK_INIT] = "slurm_spank_init",
		[HOOK_INIT_POST_OPT] = "slurm_spank_init_post_opt",
		[HOOK_USER_INIT] = "slurm_spank_user_init",
		[HOOK_TASK_INIT_PRIVILEGED] = "slurm_spank_task_init_privileged",
		[HOOK_TASK_INIT] = "slurm_spank_task_init",
		[HOOK_TASK_POST_FORK] = "slurm_spank_task_post_fork",
		[HOOK_TASK_EXIT] = "slurm_spank_task_exit",
		[HOOK_JOB_EPILOG] = "slurm_spank_job_epilog",
		[HOOK_EXIT] = "slurm_spank_exit",
		[HOOK_SLURMD_EXIT] = "slurm_spank_slurmd_exit",
	};

	return names[hook];
}

void spank_enter(enum spank_hook hook)
{
	current = hook;
}

spank_t spank_get_handle(void)
{
	return (spank_t)&handle;
}

/* --- the job and its environment
 * ------------------------------------------------------------------ */

bool spank_new_job(const char *text)
{
	unsigned id, uid, gid;

	if (sscanf(text, "%u %u %u", &id, &uid, &gid) != 3)
		return false;
	for (char **e = job.env; *e; e++)
		free(*e);
	job = (struct job){ .id = id, .uid = uid, .gid = gid };
	return true;
}

static char **find(const char *name, size_t n)
{
	for (char **e = job.env; *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			return e;
	return NULL;
}

bool spank_put_env(const char *text)
{
	const char *eq = strchr(text, '=');
	char **e;

	if (!eq || eq == text)
		return false;
	e = find(text, (size_t)(eq - text));
	if (!e)
		for (e = job.env; *e; e++)
			;
	if (e >= job.env + JOB_MAX_ENV)
		return false;
	free(*e);
	*e = strdup(text);
	return *e != NULL;
}

static void unset_env(const char *name)
{
	char **e = find(name, strlen(name));

	if (!e)
		return;
	free(*e);
	for (; (e[0] = e[1]); e++)
		;
}

void spank_tell_changes(int fd)
{
	changes_fd = fd;
}

static void tell(const char *text)
{
	if (changes_fd >= 0)
		(void)!write(changes_fd, text, strlen(text) + 1);
}

void spank_take_changes(int fd)
{
	FILE *f = fdopen(dup(fd), "r");
	char *text = NULL;
	size_t size = 0;

	while (f && getdelim(&text, &size, '\0', f) > 0) {
		if (strchr(text, '='))
			spank_put_env(text);
		else
			unset_env(text);
	}
	free(text);
	if (f)
		fclose(f);
}

void spank_call_options(void)
{
	for (char **e = job.env; *e; e++) {
		const char *name = strncmp(*e, "SPANK_", 6) ? *e : *e + 6;

		if (strncmp(name, OPTION_PREFIX, strlen(OPTION_PREFIX)))
			continue;
		name += strlen(OPTION_PREFIX);
		for (size_t i = 0; i < n_options; i++) {
			size_t n = strlen(options[i].name), k = 0;

			while (k < n && (options[i].name[k] == name[k] ||
					 (options[i].name[k] == '-' && name[k] == '_')))
				k++;
			if (k == n && name[n] == '=' && options[i].cb)
				options[i].cb(options[i].val, name + n + 1, 1);
		}
	}
}

/* --- what the plugin calls
 * ------------------------------------------------------------------------ */

spank_context_t spank_context(void)
{
	if (current == HOOK_SLURMD_INIT || current == HOOK_SLURMD_EXIT)
		return S_CTX_SLURMD;
	return current == HOOK_JOB_PROLOG || current == HOOK_JOB_EPILOG ? S_CTX_JOB_SCRIPT
									: S_CTX_REMOTE;
}

int spank_remote(spank_t sp)
{
	return sp ? spank_context() == S_CTX_REMOTE : -1;
}

int spank_symbol_supported(const char *symbol)
{
	if (!symbol)
		return -1;
	for (enum spank_hook hook = 0; hook <= HOOK_SLURMD_EXIT; hook++)
		if (!strcmp(symbol, spank_hook_get_name(hook)))
			return 1;
	return 0;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	if (!sp || !opt || (current != HOOK_INIT && current != HOOK_SLURMD_INIT) ||
	    n_options == MAX_OPTIONS)
		return ESPANK_BAD_ARG;
	options[n_options++] = *opt;
	return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t sp, struct spank_option *opt, char **argp)
{
	return sp && opt ? ESPANK_ERROR : ESPANK_BAD_ARG;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	bool known = job.id != 0, step = job.step == STEP_OF_TASKS;
	spank_err_t e = known ? ESPANK_SUCCESS : ESPANK_NOT_AVAIL;
	static char *argv[] = { (char *)"/bin/sh", NULL };
	va_list ap;

	if (!sp)
		return ESPANK_BAD_ARG;
	va_start(ap, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(ap, uint32_t *) = job.id;
		break;
	case S_JOB_UID:
		*va_arg(ap, uid_t *) = job.uid;
		break;
	case S_JOB_GID:
		*va_arg(ap, gid_t *) = job.gid;
		break;
	case S_JOB_STEPID:
		*va_arg(ap, uint32_t *) = !known ? 0 : step ? 0 : SLURM_BATCH_SCRIPT;
		break;
	case S_JOB_NNODES:
		*va_arg(ap, uint32_t *) = known;
		break;
	case S_JOB_ARGV:
		*va_arg(ap, int *) = known;
		*va_arg(ap, char ***) = known ? argv : NULL;
		e = ESPANK_SUCCESS;
		break;
	case S_JOB_ENV:
		*va_arg(ap, char ***) = known ? job.env : NULL;
		e = ESPANK_SUCCESS;
		break;
	case S_SLURM_RESTART_COUNT:
		*va_arg(ap, uint32_t *) = 0;
		e = job.step == STEP_BATCH ? ESPANK_SUCCESS : ESPANK_NOT_AVAIL;
		break;
	case S_JOB_ALLOC_CORES:
	case S_STEP_ALLOC_CORES:
		*va_arg(ap, char **) = NULL;
		e = ESPANK_NOT_AVAIL;
		break;
	default:
		e = ESPANK_BAD_ARG;
	}
	va_end(ap);
	return e;
}

spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len)
{
	const char *value;
	char **e;

	if (!sp || !var || !buf || len <= 0)
		return ESPANK_BAD_ARG;
	e = find(var, strlen(var));
	value = e ? *e + strlen(var) + 1 : getenv(var);
	if (!value)
		return ESPANK_ENV_NOEXIST;
	if (strlen(value) + 1 > (size_t)len)
		return ESPANK_NOSPACE;
	strcpy(buf, value);
	return ESPANK_SUCCESS;
}

/* Always overwrites, save in the process itself. */
spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite)
{
	char *text = NULL;

	if (!sp || !var || !val || asprintf(&text, "%s=%s", var, val) < 0)
		return ESPANK_BAD_ARG;
	if (spank_context() != S_CTX_SLURMD)
		setenv(var, val, overwrite);
	if (job.id)
		spank_put_env(text);
	tell(text);
	free(text);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *var)
{
	if (!sp || !var)
		return ESPANK_BAD_ARG;
	unsetenv(var);
	unset_env(var);
	tell(var);
	return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	return ESPANK_NOT_LOCAL;
}

spank_err_t spank_job_control_getenv(spank_t sp, const char *name, char *buf, int len)
{
	return ESPANK_NOT_LOCAL;
}

spank_err_t spank_job_control_unsetenv(spank_t sp, const char *name)
{
	return ESPANK_NOT_LOCAL;
}

const char *spank_strerror(spank_err_t err)
{
	return err == ESPANK_SUCCESS ? "success" : "an error of psslurm's";
}

/* To the user, or where there is none to the log: here all is stderr. */
#define SAY(name)                                                                                  \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		va_start(ap, fmt);                                                                 \
		vfprintf(stderr, fmt, ap);                                                         \
		fputc('\n', stderr);                                                               \
		va_end(ap);                                                                        \
	}

SAY(slurm_error)
SAY(slurm_info)
SAY(slurm_verbose)
SAY(slurm_debug)
SAY(slurm_debug2)
SAY(slurm_debug3)
SAY(slurm_spank_log)
