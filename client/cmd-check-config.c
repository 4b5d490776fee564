#include "client/cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/conf-advice.h"
#include "client/output.h"
#include "client/submit-copy.h"
#include "common/config/conf.h"
#include "common/dataset/dataset.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/root-path.h"
#include "stage-build.h"

#define LOOK_MS 3000 /* at all sources */
#define LOOK_STEP_US 500

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

static bool has_placeholder(const char *path, char c)
{
	while ((path = strchr(path, '%'))) {
		if (path[1] == c)
			return true;
		path += path[1] ? 2 : 1;
	}
	return false;
}

static bool is_dest(const struct conf_tier *t)
{
	const char *const names[] = { [CONF_TIER_MEMORY] = "shm", [CONF_TIER_DISK] = "ssd",
				      [CONF_TIER_SHARED] = "scratch" };

	return !strcmp(t->name, names[t->kind]);
}

/* What is well written and comes to nothing. */
static void warn_of_tier(const struct conf_tier *t, unsigned *n_warnings)
{
	char sentence[2 * ERROR_MAX_SIZE] = "";

	if (has_placeholder(t->path, 'a'))
		snprintf(sentence, sizeof(sentence),
			 "[tier %s] Path=%s: %%a is not known when staging begins, so nothing is "
			 "staged there; write %%j, each task of an array is a job of its own",
			 t->name, t->path);
	else if (!is_dest(t))
		snprintf(sentence, sizeof(sentence),
			 "[tier %s]: no DEST has this name, and auto does not look at it; call the "
			 "disk of nodes [tier ssd], what they share [tier scratch]",
			 t->name);
	if (*sentence)
		warn(n_warnings, sentence);
}

/* In a child: where a file system hangs it is left to it. */
static bool is_directory(const char *path, uint64_t deadline_ms)
{
	struct stat st;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(stat(path, &st) < 0 || !S_ISDIR(st.st_mode));
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_ms() >= deadline_ms) {
			(void)kill(pid, SIGKILL);
			return false;
		}
		usleep(LOOK_STEP_US);
	}
	return status == 0;
}

static void warn_of_source(const struct conf *conf, const struct conf_source *s,
			   uint64_t deadline_ms, unsigned *n_warnings)
{
	char sentence[2 * ERROR_MAX_SIZE];

	if (!conf_source_is_alone(conf, s) || !is_directory(s->match, deadline_ms))
		return;
	snprintf(sentence, sizeof(sentence),
		 "[source %s] Match=%s: this directory can be staged as a whole, and nothing in it "
		 "by itself; write %s/** for both",
		 s->name, s->match, s->match);
	warn(n_warnings, sentence);
}

static void warn_with_mend(void *arg, const char *mend, const char *text)
{
	char sentence[2 * ERROR_MAX_SIZE];

	snprintf(sentence, sizeof(sentence), "%s; %s", text, mend);
	warn(arg, sentence);
}

/* Of a file without errors. */
static void warn_of_the_rest(struct conf *conf, bool is_site)
{
	const uint64_t deadline_ms = clock_ms() + LOOK_MS;
	unsigned n_warnings = 0;

	for (size_t i = 0; i < conf->n_tiers; i++)
		warn_of_tier(&conf->tiers[i], &n_warnings);
	for (size_t i = 0; i < conf->n_sources; i++)
		warn_of_source(conf, &conf->sources[i], deadline_ms, &n_warnings);
	conf_advise_rules(conf, warn_with_mend, &n_warnings);
	conf_advise_names(conf, warn_with_mend, &n_warnings);
	conf_advise_files(conf, warn_with_mend, &n_warnings);
	if (is_site) /* a draft may be private */
		(void)conf_advise_modes(conf, warn_with_mend, &n_warnings);
	submit_copies_check(conf, warn, &n_warnings);
	if (n_warnings == 0)
		puts("    no errors");
	else
		printf("    no errors, %u warning%s\n", n_warnings, n_warnings == 1 ? "" : "s");
}

/* Is there a rule for it, whoever asks, that has its method? */
static bool has_rule(const struct conf *conf, const struct conf_dataset *c, const char **whyp)
{
	struct dataset d = { .scheme = DATASET_SCHEME_CATALOG, .source = strdup(c->name) };
	_cleanup_(freep) char *source = NULL;
	char normal[PATH_MAX];
	bool covered = false;
	int r = d.source ? conf_resolve_dataset(conf, &d, NULL) : -ENOMEM;

	source = d.source;
	if (r < 0 || d.scheme != DATASET_SCHEME_FILE ||
	    path_normalize(source, normal, sizeof(normal)) < 0)
		snprintf(normal, sizeof(normal), "%s", source ?: "");
	for (size_t i = 0; r == 0 && i < conf->n_sources; i++) {
		if (!conf_source_covers(&conf->sources[i], normal))
			continue;
		covered = true;
		if (c->method == DATASET_METHOD_AUTO ||
		    conf_source_allows_method(&conf->sources[i], dataset_method_to_string(c->method)))
			return true;
	}
	*whyp = covered ? "the [source] that covers it does not allow this Method"
			: "no [source] covers it, so nobody may stage it; add one";
	return false;
}

/* Each by itself is well, but they don't fit: jobs that don't ask for these datasets are not touched. */
static unsigned check_catalogue(const struct conf *conf)
{
	unsigned n_errors = 0;
	const char *why;

	for (size_t i = 0; i < conf->n_datasets; i++) {
		const struct conf_dataset *c = &conf->datasets[i];
		char sentence[2 * ERROR_MAX_SIZE];

		if (has_rule(conf, c, &why))
			continue;
		n_errors++;
		snprintf(sentence, sizeof(sentence), "[dataset %s] Source=%s: %s", c->name, c->source,
			 why);
		output_lines(stdout, "    ", sentence);
	}
	return n_errors;
}

/* As root looks at it on a node: where the directory is here, and whose it is can be seen. */
static unsigned check_roots_file(const char *key, const char *path)
{
	char sentence[PATH_MAX + 256];
	const char *name;
	_cleanup_(fd_closep) int dir = *path ? root_path_open_above(path, &name) : -ENOENT;

	if (dir != -EPERM)
		return 0;
	snprintf(sentence, sizeof(sentence), "%s=%s: its directory, and all above it, must be root's and writable by "
		 "nobody else; put it into a directory of its own, as /var/log/stage-data/", key, path);
	output_lines(stdout, "    ", sentence);
	return 1;
}

static int run(int argc, char **argv)
{
	const char *site = cmd_get_conf() ?: STAGE_CONF_DIR "/stage-data.conf", *path = site;
	_cleanup_(conf_freep) struct conf *conf = NULL;
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
	if (conf_load(&conf, path, NULL) < 0)
		return STAGE_EXIT_OK;
	n_errors = check_catalogue(conf);
	if (n_errors) {
		output_error("%s: %u dataset%s that nobody can have", path, n_errors,
			     n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	n_errors = check_roots_file("LogFile", conf->log_file) + check_roots_file("Textfile", conf->metrics_textfile);
	if (n_errors) {
		output_error("%s: %u file%s that root does not write to", path, n_errors, n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	warn_of_the_rest(conf, !strcmp(path, site));
	return STAGE_EXIT_OK;
}

const struct cmd cmd_check_config = {
	.name = "check-config",
	.args = "[FILE] | --print-defaults",
	.summary = "check the configuration: every error with file, line and mend",
	.help =
	"Reads FILE (default: " STAGE_CONF_DIR "/stage-data.conf) and, beside it,\n"
	"conf.d/*.conf, and goes on after an error. Any error closes the feature for jobs that\n"
	"ask for it, so check before you install. A warning names what\n"
	"can't be done as it is.\n"
	"\n"
	"  --print-defaults   every key with its default and what it means\n"
	"\n"
	"Exit status: 0 no errors, 1 errors.\n",
	.run = run,
};
