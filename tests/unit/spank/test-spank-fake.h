/*
 * test-spank-fake: Slurm's side of the plugin interface, as much as the plugin calls.
 *
 * One step of one job: tests set its items and its environment and look at what the plugin did.
 */
#pragma once

#include "tests/unit/unit.h"

#include <sched.h>
#include <sys/mount.h>

#include "common/util/fd.h"
#include "spank/slurm-compat.h"

#define FAKE_MAX_ENV 64

struct fake_spank {
	spank_context_t context;
	uint32_t job_id, step_id;
	char *env[FAKE_MAX_ENV + 1]; /* NAME=VALUE */
	char *argv[2];
	struct spank_option options[4];
	size_t n_options;
	char *control;	      /* STAGE_SPEC, NULL: not published */
	bool control_is_full; /* Slurm does not take it */
	bool knows_nothing;   /* of the job */
	char log[4096];	      /* what was said to the user */
};

static struct fake_spank fake;

static inline void fake_reset(spank_context_t context)
{
	for (char **e = fake.env; *e; e++)
		free(*e);
	free(fake.control);
	fake = (struct fake_spank){ .context = context,
				    .job_id = 4294000001u,
				    .step_id = 0,
				    .argv = { (char *)"true", NULL } };
}

static inline char **fake_find(const char *name)
{
	size_t n = strlen(name);

	for (char **e = fake.env; *e; e++)
		if (!strncmp(*e, name, n) && (*e)[n] == '=')
			return e;
	return NULL;
}

static inline const char *fake_getenv(const char *name)
{
	char **e = fake_find(name);

	return e ? *e + strlen(name) + 1 : NULL;
}

static inline void fake_setenv(const char *name, const char *value)
{
	char **e = fake_find(name);

	if (e)
		free(*e);
	else
		for (e = fake.env; *e; e++)
			assert_true(e < fake.env + FAKE_MAX_ENV - 1);
	assert_true(asprintf(e, "%s=%s", name, value) > 0);
}

spank_context_t spank_context(void)
{
	return fake.context;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	assert_true(fake.n_options < ARRAY_SIZE(fake.options));
	fake.options[fake.n_options++] = *opt;
	return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	spank_err_t e = ESPANK_SUCCESS;
	va_list ap;

	if (fake.knows_nothing)
		return ESPANK_ERROR;
	va_start(ap, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(ap, uint32_t *) = fake.job_id;
		break;
	case S_JOB_STEPID:
		*va_arg(ap, uint32_t *) = fake.step_id;
		break;
	case S_JOB_UID:
		*va_arg(ap, uid_t *) = getuid();
		break;
	case S_JOB_GID:
		*va_arg(ap, gid_t *) = getgid();
		break;
	case S_SLURM_RESTART_COUNT:
		*va_arg(ap, uint32_t *) = 0;
		break;
	case S_JOB_ARGV:
		*va_arg(ap, int *) = 1;
		*va_arg(ap, char ***) = fake.argv;
		break;
	case S_JOB_ENV:
		*va_arg(ap, char ***) = fake.env;
		break;
	default:
		e = ESPANK_BAD_ARG;
	}
	va_end(ap);
	return e;
}

spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len)
{
	const char *value = fake_getenv(var);

	if (!value)
		return ESPANK_ENV_NOEXIST;
	return snprintf(buf, (size_t)len, "%s", value) >= len ? ESPANK_NOSPACE : ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite)
{
	if (!overwrite && fake_find(var))
		return ESPANK_ENV_EXISTS;
	fake_setenv(var, val);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *var)
{
	char **e = fake_find(var);

	if (!e)
		return ESPANK_ENV_NOEXIST;
	free(*e);
	for (; (e[0] = e[1]); e++)
		;
	return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	assert_string_equal(name, "STAGE_SPEC");
	if (fake.control_is_full)
		return ESPANK_NOSPACE;
	free(fake.control);
	fake.control = strdup(value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_unsetenv(spank_t sp, const char *name)
{
	free(fake.control);
	fake.control = NULL;
	return ESPANK_SUCCESS;
}

const char *spank_strerror(spank_err_t err)
{
	return "an error of Slurm's";
}

static inline void fake_log(const char *fmt, va_list ap)
{
	size_t n = strlen(fake.log);

	vsnprintf(fake.log + n, sizeof(fake.log) - n, fmt, ap);
	n = strlen(fake.log);
	snprintf(fake.log + n, sizeof(fake.log) - n, "\n");
}

void slurm_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fake_log(fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s", fake.log); /* a refusal ends the process: tests read it from there */
}

void slurm_spank_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fake_log(fmt, ap);
	va_end(ap);
}

/* A node of the test's own: /run is a fresh tmpfs. */
static inline bool have_node(void)
{
	static int have = -1;

	if (have < 0) {
		int flags = CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER);

		have = unshare(flags) == 0 &&
		       mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
		       mount("tmpfs", "/run", "tmpfs", 0, NULL) == 0;
	}
	return have;
}

#define NEED_NODE()                                                                                \
	do {                                                                                       \
		if (!have_node())                                                                  \
			skip();                                                                    \
	} while (0)
