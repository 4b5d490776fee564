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
#include "client/doctor.h"
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

#define LOOK_MS 3000 /* for all checks of sources together */
#define LOOK_STEP_US 500

static const struct option options[] = { { "print-defaults", no_argument, NULL, 'p' }, { 0 } };

struct findings {
	unsigned n_errors;
	char file[PATH_MAX]; /* the file with the first error */
	bool more_files;
};

static void report(void *arg, const char *file, unsigned line, const char *text, const char *hint)
{
	char sentence[2 * ERROR_MAX_SIZE];
	struct findings *found = arg;

	if (found->n_errors++ == 0)
		snprintf(found->file, sizeof(found->file), "%s", file);
	found->more_files = found->more_files || strcmp(found->file, file);
	if (line)
		snprintf(sentence, sizeof(sentence), "%s:%u: %s", file, line, text);
	else
		snprintf(sentence, sizeof(sentence), "%s: %s", file, text);
	output_lines(stdout, "", sentence);
	if (hint && hint[0])
		output_lines(stdout, "    ", hint);
}

/* Writes "FILE:LINE: ", the place of an item in the configuration; "" for a default. */
static const char *get_place(const struct conf *conf, const char *section, const char *name,
			     char *buf, size_t size)
{
	const char *file;
	unsigned line;

	buf[0] = '\0';
	if (conf_get_place(conf, section, name, &file, &line))
		snprintf(buf, size, "%s:%u: ", file, line);
	return buf;
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
	const char *const names[] = {
		[CONF_TIER_MEMORY] = "shm", [CONF_TIER_DISK] = "ssd", [CONF_TIER_SHARED] = "scratch"
	};

	return !strcmp(t->name, names[t->kind]);
}

/* Warns about valid settings that have no effect. */
static void warn_of_tier(const struct conf *conf, const struct conf_tier *t, unsigned *n_warnings)
{
	char sentence[2 * ERROR_MAX_SIZE] = "", place[ERROR_MAX_SIZE];

	get_place(conf, "tier", t->name, place, sizeof(place));
	if (has_placeholder(t->path, 'a'))
		snprintf(sentence, sizeof(sentence),
			 "%s[tier %s] Path=%s: %%a is not known when staging begins, so nothing is "
			 "staged there; write %%j, each task of an array is a job of its own",
			 place, t->name, t->path);
	else if (!is_dest(t))
		snprintf(sentence, sizeof(sentence),
			 "%s[tier %s]: no DEST has this name, and auto does not look at it; name "
			 "the tier of the nodes' disks [tier ssd], and a shared one [tier scratch]",
			 place, t->name);
	if (*sentence)
		warn(n_warnings, sentence);
}

enum look { LOOK_ROOTS, LOOK_OTHERS, LOOK_NO_DIR, LOOK_NONE, LOOK_UNKNOWN };

static enum look look_at(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? LOOK_NONE : LOOK_UNKNOWN;
	if (!S_ISDIR(st.st_mode))
		return LOOK_NO_DIR;
	return doctor_is_roots(&st) ? LOOK_ROOTS : LOOK_OTHERS;
}

/* Runs in a child process. If a file system hangs, the child is killed and not waited for. */
static enum look look_in_child(const char *path, uint64_t deadline_ms)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(look_at(path));
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_ms() >= deadline_ms) {
			(void)kill(pid, SIGKILL);
			return LOOK_UNKNOWN;
		}
		usleep(LOOK_STEP_US);
	}
	return pid > 0 && WIFEXITED(status) ? (enum look)WEXITSTATUS(status) : LOOK_UNKNOWN;
}

static void say_unchecked(const char *text)
{
	output_lines(stdout, "    not checked: ", text);
}

/* Checks the directory of a tier on the node's disk, in which root makes directories. On a machine
 * that is not a compute node, it may be missing. */
static void check_tier_here(const struct conf *conf, const struct conf_tier *t,
			    uint64_t deadline_ms, unsigned *n_warnings)
{
	static const char *const texts[] = {
		[LOOK_OTHERS] = "is not root's alone here, so nothing is staged there; chown root "
				"and chmod 0755 it",
		[LOOK_NO_DIR] = "is no directory here; name one",
		[LOOK_NONE] = "is not on this machine; 'stagectl doctor' on the nodes that have it "
			      "checks owner and mode",
		[LOOK_UNKNOWN] = "can't be looked at here; 'stagectl doctor' on a compute node "
				 "checks owner and mode",
	};
	char sentence[2 * ERROR_MAX_SIZE], place[ERROR_MAX_SIZE];
	enum look look;

	if (t->kind != CONF_TIER_DISK || t->provided_by_site || strchr(t->path, '%'))
		return;
	look = look_in_child(t->path, deadline_ms);
	if (look == LOOK_ROOTS)
		return;
	get_place(conf, "tier", t->name, place, sizeof(place));
	snprintf(sentence, sizeof(sentence), "%s[tier %s] Path=%s %s", place, t->name, t->path,
		 texts[look]);
	if (look == LOOK_OTHERS || look == LOOK_NO_DIR)
		warn(n_warnings, sentence);
	else
		say_unchecked(sentence);
}

static void warn_of_source(const struct conf *conf, const struct conf_source *s,
			   uint64_t deadline_ms, unsigned *n_warnings)
{
	char sentence[2 * ERROR_MAX_SIZE], place[ERROR_MAX_SIZE];
	enum look look;

	if (!conf_source_is_alone(conf, s))
		return;
	look = look_in_child(s->match, deadline_ms);
	if (look != LOOK_ROOTS && look != LOOK_OTHERS)
		return;
	snprintf(sentence, sizeof(sentence),
		 "%s[source %s] Match=%s: this directory can be staged as a whole, and nothing in "
		 "it "
		 "by itself; write %s/** for both",
		 get_place(conf, "source", s->name, place, sizeof(place)), s->name, s->match,
		 s->match);
	warn(n_warnings, sentence);
}

static void warn_with_hint(void *arg, const char *hint, const char *text)
{
	char sentence[2 * ERROR_MAX_SIZE];

	snprintf(sentence, sizeof(sentence), "%s; %s", text, hint);
	warn(arg, sentence);
}

static void check_partitions(const struct conf *conf, unsigned *n_warnings)
{
	int r = conf_advise_partitions(conf, warn_with_hint, n_warnings);

	if (r == -ENOENT)
		say_unchecked("partitions: Slurm's sinfo is not here; 'stagectl doctor' on a node "
			      "checks them");
	else if (r < 0)
		say_unchecked("partitions: sinfo does not answer; ask again where the controller "
			      "can be reached");
}

/* The file that is installed must be readable; a draft may be private. */
static void check_modes(struct conf *conf, bool is_site, unsigned *n_warnings)
{
	char sentence[PATH_MAX + 128];
	struct stat st;

	if (is_site)
		(void)conf_advise_modes(conf, warn_with_hint, n_warnings);
	else if (stat(conf->path, &st) == 0 && !(st.st_mode & 04)) {
		snprintf(sentence, sizeof(sentence),
			 "%s has mode %04o, as a draft may; install it with mode 0644", conf->path,
			 st.st_mode & 07777);
		say_unchecked(sentence);
	}
}

/* Called only for a file without errors. */
static void warn_of_the_rest(struct conf *conf, bool is_site)
{
	const uint64_t deadline_ms = clock_ms() + LOOK_MS;
	unsigned n_warnings = 0;

	for (size_t i = 0; i < conf->n_tiers; i++) {
		warn_of_tier(conf, &conf->tiers[i], &n_warnings);
		check_tier_here(conf, &conf->tiers[i], deadline_ms, &n_warnings);
	}
	for (size_t i = 0; i < conf->n_sources; i++)
		warn_of_source(conf, &conf->sources[i], deadline_ms, &n_warnings);
	conf_advise_off(conf, warn_with_hint, &n_warnings);
	conf_advise_rules(conf, warn_with_hint, &n_warnings);
	conf_advise_names(conf, warn_with_hint, &n_warnings);
	conf_advise_networks(conf, warn_with_hint, &n_warnings);
	conf_advise_files(conf, warn_with_hint, &n_warnings);
	check_modes(conf, is_site, &n_warnings);
	check_partitions(conf, &n_warnings);
	submit_copies_check(conf, warn, &n_warnings);
	if (n_warnings == 0)
		puts("    no errors");
	else
		printf("    no errors, %u warning%s\n", n_warnings, n_warnings == 1 ? "" : "s");
}

/* Returns whether any rule covers the dataset and allows its method, for any user. */
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
		    conf_source_allows_method(&conf->sources[i],
					      dataset_method_to_string(c->method)))
			return true;
	}
	*whyp = covered ? "the [source] that covers it does not allow this Method"
			: "no [source] covers it, so nobody may stage it; add one";
	return false;
}

/* Checks the catalogue against the rules. Each section may be valid and still not fit the others.
 * Jobs that do not use these datasets are not affected. */
static unsigned check_catalogue(const struct conf *conf)
{
	unsigned n_errors = 0;
	const char *why;

	for (size_t i = 0; i < conf->n_datasets; i++) {
		const struct conf_dataset *c = &conf->datasets[i];
		char sentence[2 * ERROR_MAX_SIZE], place[ERROR_MAX_SIZE];

		if (has_rule(conf, c, &why))
			continue;
		n_errors++;
		snprintf(sentence, sizeof(sentence), "%s[dataset %s] Source=%s: %s",
			 get_place(conf, "dataset", c->name, place, sizeof(place)), c->name,
			 c->source, why);
		output_lines(stdout, "    ", sentence);
	}
	return n_errors;
}

/* Checks a file that root writes on the nodes, in the same way as root does. If the directory
 * exists here, its owner is checked. */
static unsigned check_roots_file(const struct conf *conf, const char *section, const char *key,
				 const char *path)
{
	char sentence[2 * PATH_MAX + 256], place[ERROR_MAX_SIZE];
	const char *name;
	_cleanup_(fd_closep) int dir = *path ? root_path_open_above(path, &name) : -ENOENT;

	if (dir != -EPERM)
		return 0;
	snprintf(sentence, sizeof(sentence),
		 "%s%s=%s: its directory, and all above it, must be root's and writable by "
		 "nobody else; put it into a directory of its own, as /var/log/stage-data/",
		 get_place(conf, section, key, place, sizeof(place)), key, path);
	output_lines(stdout, "    ", sentence);
	return 1;
}

/* Notes a missing directory: the file may still be written on nodes that have it. */
static void look_for_dir(const struct conf *conf, const char *section, const char *key,
			 const char *path)
{
	char sentence[2 * PATH_MAX + 256], place[ERROR_MAX_SIZE];
	const char *name;
	_cleanup_(fd_closep) int dir = *path ? root_path_open_above(path, &name) : -EPERM;

	if (dir != -ENOENT)
		return;
	snprintf(sentence, sizeof(sentence),
		 "%s%s=%s: its directory is not on this machine; a node that does not have it "
		 "writes nothing",
		 get_place(conf, section, key, place, sizeof(place)), key, path);
	say_unchecked(sentence);
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat a, b;

	return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int cmd_check_config_run(int argc, char **argv)
{
	const char *site = cmd_get_conf() ?: STAGE_CONF_DIR "/stage-data.conf", *path = site;
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct findings found = { 0 };
	unsigned n_errors;
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
	r = conf_check(path, report, &found);
	if (r < 0 && found.n_errors == 0) {
		output_error("%s can't be read", path);
		return STAGE_EXIT_FAILED;
	}
	if (found.n_errors) {
		output_error(
			"%s%s: %u error%s; jobs with --stage-data are refused until this is fixed",
			found.file, found.more_files ? " and others" : "", found.n_errors,
			found.n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	output_lines(stdout, "", path);
	if (conf_load(&conf, path, NULL) < 0)
		return STAGE_EXIT_OK;
	n_errors = check_catalogue(conf);
	if (n_errors) {
		output_error("%s: %u dataset%s that nobody can use", path, n_errors,
			     n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	n_errors = check_roots_file(conf, "daemon", "LogFile", conf->log_file) +
		   check_roots_file(conf, "metrics", "Textfile", conf->metrics_textfile);
	if (n_errors) {
		output_error("%s: %u file%s that root does not write to", path, n_errors,
			     n_errors == 1 ? "" : "s");
		return STAGE_EXIT_FAILED;
	}
	look_for_dir(conf, "daemon", "LogFile", conf->log_file);
	look_for_dir(conf, "metrics", "Textfile", conf->metrics_textfile);
	warn_of_the_rest(conf, is_same_file(path, site));
	return STAGE_EXIT_OK;
}

const struct cmd cmd_check_config = {
	.name = "check-config",
	.args = "[FILE] | --print-defaults",
	.summary = "check the configuration: every error with file, line and fix",
	.help = "Reads FILE (default: " STAGE_CONF_DIR "/stage-data.conf) and, beside it,\n"
		"conf.d/*.conf, and prints all errors. As long as there is one, jobs with "
		"--stage-data\n"
		"are refused, so check before you install. A warning names a line that has no "
		"effect.\n"
		"\"not checked\" names what cannot be checked on this machine.\n"
		"\n"
		"  --print-defaults   every key with its default and what it means\n"
		"\n"
		"Exit status: 0 no errors, 1 errors.\n",
	.run = cmd_check_config_run,
};
