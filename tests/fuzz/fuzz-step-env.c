/*
 * The user's file of variables, copied into a step's environment, and command lines of Slurm's
 * clients: the first byte says which.
 */
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>

#include "spank/client-args.h"
#include "spank/step-env.h"

static const char *const allowed[] = {
	"APPTAINER_BIND",
	"APPTAINER_BINDPATH",
	"SINGULARITY_BIND",
	"SINGULARITY_BINDPATH",
};

static char path[64];

/* Slurm's side: whatever is set must be ours to set. */
spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	bool ok = !strncmp(name, "STAGE_DATA_", 11) || !strncmp(name, "PYXIS_", 6);

	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		ok = ok || !strcmp(name, allowed[i]);
	FUZZ_CHECK(ok && !strchr(name, '=') && !strchr(name, '\n') && !strchr(value, '\n'));
	return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t sp, const char *name, char *buf, int len)
{
	if (strcmp(name, "APPTAINER_BIND"))
		return ESPANK_ENV_NOEXIST;
	return snprintf(buf, (size_t)len, "/a,/b") >= len ? ESPANK_NOSPACE : ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name)
{
	return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	return ESPANK_BAD_ARG;
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	return ESPANK_SUCCESS;
}

static void remove_file(void)
{
	unlink(path);
}

static void read_env(const uint8_t *data, size_t size)
{
	if (!path[0]) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-step-env-%d", getpid());
		atexit(remove_file);
	}
	fuzz_write_file(path, data, size);
	FUZZ_CHECK(step_env_copy(NULL, path) == 0);
}

static void read_words(const char *text, size_t size)
{
	struct client_args args = { 0 };

	client_args_read(&args, text, size);
	FUZZ_CHECK(memchr(args.partition, '\0', sizeof(args.partition)));
	FUZZ_CHECK(!args.script || (args.script >= text && args.script < text + size));
	client_args_read_script(&args, text);
	FUZZ_CHECK(memchr(args.partition, '\0', sizeof(args.partition)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);

	if (size == 0)
		return 0;
	if (data[0] & 1)
		read_env(data + 1, size - 1);
	else
		read_words(text + 1, size); /* with the NUL behind it */
	return 0;
}
