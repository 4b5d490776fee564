#include "client/cmd.h"

#include <stdio.h>
#include <unistd.h>

#include "client/output.h"
#include "common/conf.h"
#include "common/error.h"
#include "stage-build.h"

static const struct option options[] = { { "print-defaults", no_argument, NULL, 'p' }, { 0 } };

static void report(void *arg, const char *file, unsigned line, const char *text, const char *mend)
{
	char sentence[2 * ERROR_MAX_SIZE];
	unsigned *n_errors = arg;

	(*n_errors)++;
	if (line)
		snprintf(sentence, sizeof(sentence), "%s:%u: %s", file, line, text);
	else
		snprintf(sentence, sizeof(sentence), "%s: %s", file, text);
	output_lines(stdout, "", sentence);
	if (mend && mend[0])
		output_lines(stdout, "    ", mend);
}

static void warn(void *arg, const char *text)
{
	unsigned *n_warnings = arg;

	(*n_warnings)++;
	output_lines(stdout, "    warning: ", text);
}

/* Of a file without errors. */
static void warn_of_idle_keys(const char *path)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	unsigned n_warnings = 0;

	if (conf_load(&conf, path, NULL) == 0)
		conf_for_each_idle(conf, warn, &n_warnings);
	if (n_warnings == 0)
		puts("    no errors");
	else
		printf("    no errors, %u warning%s\n", n_warnings, n_warnings == 1 ? "" : "s");
}

static int run(int argc, char **argv)
{
	const char *path = cmd_get_conf() ?: STAGE_CONF_DIR "/stage-data.conf";
	unsigned n_errors = 0;
	int c, r;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c == '?')
			return STAGE_EXIT_USAGE;
		conf_print_defaults(stdout);
		return STAGE_EXIT_OK;
	}
	if (argc - optind > 1)
		return output_usage(argv[0], "one file at a time");
	if (optind < argc)
		path = argv[optind];
	if (access(path, F_OK) < 0) {
		output_error("%s is not there: no job may stage anything; see stage-data.conf(5)",
			     path);
		return STAGE_EXIT_FAILED;
	}
	r = conf_check(path, report, &n_errors);
	if (r < 0 && n_errors == 0) {
		output_error("%s can't be read", path);
		return STAGE_EXIT_FAILED;
	}
	if (n_errors) {
		output_error("%s: %u error%s; the feature stays closed until they are mended", path,
			     n_errors, n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	output_lines(stdout, "", path);
	warn_of_idle_keys(path);
	return STAGE_EXIT_OK;
}

const struct cmd cmd_check_config = {
	.name = "check-config",
	.args = "[FILE] | --print-defaults",
	.summary = "check the configuration: every error with file, line and mend",
	.help =
	"Reads FILE (default: " STAGE_CONF_DIR "/stage-data.conf) and, beside it,\n"
	"conf.d/*.conf, and goes on after an error. Any error closes the feature for jobs that\n"
	"ask for it, so check before you install. A warning names what has no effect in this\n"
	"version.\n"
	"\n"
	"  --print-defaults   every key with its default and what it means\n"
	"\n"
	"Exit status: 0 no errors, 1 errors.\n",
	.run = run,
};
