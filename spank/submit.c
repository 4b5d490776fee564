#include "spank/submit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/config/spec.h"
#include "common/dataset/dataset.h"
#include "common/protocol/rundir.h"
#include "common/protocol/submit-notes.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "spank/checks.h"
#include "spank/client-args.h"
#include "spank/cli-filter.h"
#include "spank/wait-ready.h"
#include "spank/options.h"
#include "spank/say.h"
#include "spank/step.h"

/*
 * The plugin is listed as `optional`, so Slurm ignores the result of init_post_opt, and the option
 * callbacks can refuse only with Slurm's own text. Therefore a refusal prints a message and exits
 * here.
 *
 * One text is published, under a name of our own, because Slurm forwards only the last of several
 * values, and not to all steps in all releases. Slurm's own forwarding still happens. It is used
 * only to distinguish an inherited value from a new one.
 *
 * Everything that is submitted inside a job inherits its environment. Our variables are removed
 * from the client's environment before Slurm copies it. Otherwise, it would look as if the new job
 * had asked for datasets.
 */
static char *env_data, *env_wait; /* values that submit_init() removed from the environment */
static bool published;		  /* true after this or an earlier component was published */

/* --- what was given ------------------------------------------------------------------------ */

static char *take_env(const char *name)
{
	const char *value = getenv(name);
	char *copy = value && *value ? strdup(value) : NULL;

	unsetenv(name);
	return copy;
}

void submit_init(void)
{
	/* Inside a job, both variables may come from the job's submission; srun does not remove
	 * them. */
	if (spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID"))
		return;
	free(env_data);
	free(env_wait);
	env_data = take_env("STAGE_DATA");
	env_wait = take_env("STAGE_WAIT");
	if (env_data)
		cli_filter_note(SUBMIT_NOTE_ENVIRONMENT, env_data);
}

/* The environment replaces the script's values, and the command line replaces both. A value with
 * "+" is added. */
static char *merge_given(const struct options *o)
{
	const struct options_values *cmd = &o->command_line, *script = &o->script;
	_cleanup_(freep) char *base = NULL;
	struct error err = ERROR_INIT;
	const char *env = env_data;
	char *value = NULL, set[512];
	int r;

	if (o->no_memory)
		say_refuse("no memory for the option's value");
	if (cmd->n_given > OPTIONS_MAX_VALUES || script->n_given > OPTIONS_MAX_VALUES)
		say_refuse("--stage-data was given %zu times; did the shell expand braces? Put the "
			   "value in quotes: --stage-data='/path/x-{000..146}.tar'",
			   cmd->n_given > script->n_given ? cmd->n_given : script->n_given);
	r = dataset_merge(&base, script->values, script->n_values, &env, !!env, &err);
	if (r == 0)
		r = dataset_merge(&value, (const char *const *)&base, !!base, cmd->values,
				  cmd->n_values, &err);
	if (r < 0)
		say_refuse("%s", err.text);
	if (dataset_find_sequence(cmd->values, cmd->n_values, set, sizeof(set)))
		say_warn("--stage-data was given %zu times, with numbers in a row: these are %zu "
			 "datasets. "
			 "For one set of files quote the braces: --stage-data='%s'",
			 cmd->n_values, cmd->n_values, set);
	return value;
}

static enum conf_wait get_wait(const struct options *o, const struct conf *conf)
{
	const char *text = o->wait_command_line ? o->wait_command_line
			   : env_wait		? env_wait
						: o->wait_script;
	enum conf_wait wait = conf->default_wait;

	if (text && wait_ready_from_string(text, &wait) < 0)
		say_refuse("--stage-wait=%s is not known; use script, tasks or no", text);
	return wait;
}

/* --- placeholders -------------------------------------------------------------------------- */

/*
 * STAGE_DATA_DIR, STAGE_DATA_NAMES, STAGE_DATA_PATH_<NAME> and, for sets, STAGE_DATA_LIST_<NAME>
 * are set in this process to paths below RUNDIR_NOT_STAGED. On each node of the job, the plugin
 * replaces them (step_env_place()). If slurmd has not loaded the plugin, they stay, and their text
 * shows the job why its data is missing.
 */
#define PLACEHOLDER_SIZE (sizeof(RUNDIR_NOT_STAGED) + DATASET_NAME_SIZE + 8)

static int set_placeholder_names(const struct dataset_list *list)
{
	_cleanup_(freep) char *names = calloc(list->n_items + 1, DATASET_NAME_SIZE + 1);
	char *end = names;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < list->n_items; i++)
		end += sprintf(end, "%s%s", i ? " " : "", list->items[i].name);
	return setenv("STAGE_DATA_NAMES", names, 1) < 0 ? -ENOMEM : 0;
}

static int set_placeholder(const struct dataset *d, const char *prefix, const char *file)
{
	char name[DATASET_NAME_SIZE + 32], value[PLACEHOLDER_SIZE];

	dataset_env_name(d, prefix, name, sizeof(name));
	snprintf(value, sizeof(value), "%s/%s%s", RUNDIR_NOT_STAGED, file, d->name);
	return setenv(name, value, 1) < 0 ? -ENOMEM : 0;
}

static int set_placeholders(const struct dataset_list *list)
{
	int r = set_placeholder_names(list);

	if (r == 0 && setenv("STAGE_DATA_DIR", RUNDIR_NOT_STAGED, 1) < 0)
		r = -ENOMEM;
	for (size_t i = 0; i < list->n_items && r == 0; i++) {
		r = set_placeholder(&list->items[i], "STAGE_DATA_PATH_", "");
		if (r == 0 && list->items[i].is_set)
			r = set_placeholder(&list->items[i], "STAGE_DATA_LIST_", "list.");
	}
	return r;
}

/* --- reading and publishing ---------------------------------------------------------------- */

static const char *get_env(void *arg, const char *name)
{
	return getenv(name);
}

static void read_list(struct dataset_list *list, const char *value, const char *home)
{
	_cleanup_(freep) char *cwd = getcwd(NULL, 0);
	struct error err = ERROR_INIT;

	if (dataset_list_from_string(list, value, &err) < 0 ||
	    dataset_list_expand(list, cwd ? cwd : "/", home, get_env, NULL, &err) < 0)
		say_refuse("%s", err.text);
}

static void publish(spank_t sp, const struct dataset_list *list, const struct conf *conf,
		    enum conf_wait wait, const struct client_args *args)
{
	struct spec spec = { .wait = wait, .array = args->is_wide_array };
	_cleanup_(freep) char *value = NULL, *text = NULL;
	spank_err_t e;

	if (dataset_list_to_string(list, &value) < 0)
		say_refuse("no memory");
	snprintf(spec.conf_hash, sizeof(spec.conf_hash), "%s", conf->hash);
	strcpy(spec.gres, args->gres);
	spec.value = value;
	if (spec_to_string(&spec, &text) < 0)
		say_refuse("no memory");
	/* With more than 128 KiB, Slurm would drain nodes. */
	if (strlen(text) > DATASET_MAX_VALUE)
		say_refuse("the expanded value has %zu bytes, at most %d can travel with a job; "
			   "put the paths into a file and give @@FILE",
			   strlen(text), DATASET_MAX_VALUE);
	e = spank_job_control_setenv(sp, SPEC_ENV, text, 1);
	if (e != ESPANK_SUCCESS)
		say_refuse("cannot pass the value on to the job: %s", spank_strerror(e));
	published = true;
	if (set_placeholders(list) < 0)
		say_refuse("no memory");
	/* The step of an srun outside a job gets the value only through srun's environment. */
	if (spank_context() == S_CTX_LOCAL && setenv(SPEC_ENV_JOB, text, 1) < 0)
		say_refuse("no memory");
	if (wait != CONF_WAIT_NO && !strcmp(program_invocation_short_name, "salloc"))
		slurm_spank_log("stage-data: the shell of salloc does not wait; `srun stagectl "
				"wait` returns when the datasets are ready, and `eval \"$(srun "
				"-N1 -n1 stagectl env)\"` sets their paths in a shell on the "
				"login node");
}

/* starts_later: a filter has submitted movers, and the job waits for them */
static void submit_request(spank_t sp, const struct options *o, const char *value,
			   bool starts_later, const char *conf_path)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	struct client_args args;
	struct checks_user user;

	checks_get_user(&user);
	read_list(&list, value, user.home);
	if (list.n_items > 0) {
		client_args_get(&args);
		args.starts_later |= starts_later;
		if (conf_load(&conf, conf_path, &err) < 0)
			say_refuse("%s; no dataset can be staged until the site has fixed its "
				   "configuration",
				   err.text);
		checks_run(conf, &list, value, &args, &user);
		publish(sp, &list, conf, get_wait(o, conf), &args);
	}
	dataset_list_deinit(&list);
	checks_user_deinit(&user);
}

/* --- inside a job -------------------------------------------------------------------------- */

/* Checks the value of an srun inside a job. The job's own value is allowed; a step cannot stage
 * others. */
static void check_inner_value(const char *value)
{
	_cleanup_(freep) char *text = NULL;
	struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	const char *job_text = getenv(SPEC_ENV_JOB);
	struct spec spec = { 0 };
	struct checks_user user;

	checks_get_user(&user);
	read_list(&list, value, user.home);
	if (list.n_items > 0 && !job_text)
		say_refuse("this job was submitted without --stage-data; use srun stagectl run "
			   "--stage-data=... -- COMMAND");
	if (job_text && spec_from_string(&spec, job_text, &err) < 0)
		say_refuse("%s: %s", SPEC_ENV_JOB, err.text);
	if (dataset_list_to_string(&list, &text) < 0)
		say_refuse("no memory");
	if (list.n_items > 0 && strcmp(text, spec.value))
		say_refuse("the datasets of a running job are not changed by srun; inside the job "
			   "use stagectl add '%s'",
			   text);
	spec_deinit(&spec);
	dataset_list_deinit(&list);
	checks_user_deinit(&user);
}

/* The environment has the paths of this node. The step's nodes set their own, if they can. */
static void set_step_env(void)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	const char *text = getenv(SPEC_ENV_JOB);
	struct spec spec = { 0 };

	if (!text || spec_from_string(&spec, text, NULL) < 0)
		return;
	if (dataset_list_from_string(&list, spec.value, NULL) == 0)
		(void)set_placeholders(&list);
	spec_deinit(&spec);
}

static void submit_step(const struct options *o)
{
	_cleanup_(freep) char *value = NULL;
	enum conf_wait wait;

	if (o->command_line.n_given || o->no_memory)
		value = merge_given(o);
	if (value)
		check_inner_value(value);
	set_step_env();
	if (!o->wait_command_line)
		return;
	if (wait_ready_from_string(o->wait_command_line, &wait) < 0)
		say_refuse("--stage-wait=%s is not known; use script, tasks or no",
			   o->wait_command_line);
	setenv(WAIT_READY_ENV_WAIT, o->wait_command_line, 1);
}

static void forget_outer_job(void)
{
	static const char prefix[] = "STAGE_DATA_";

	unsetenv(SPEC_ENV_JOB);
	unsetenv(STEP_ENV_HELD);
	unsetenv(WAIT_READY_ENV_WAIT);
	if (!getenv("SLURM_JOB_ID") || published) /* keep the variables that an earlier component
						   * has set */
		return;
	for (char **e = environ; *e;) {
		char name[256];
		size_t n = strcspn(*e, "=");

		/* unsetenv() does not remove an entry without '='. */
		if (strncmp(*e, prefix, sizeof(prefix) - 1) || !(*e)[n] || n >= sizeof(name)) {
			e++;
			continue;
		}
		memcpy(name, *e, n);
		name[n] = '\0';
		unsetenv(name); /* moves the remaining pointers in environ */
	}
}

void submit_post_opt(spank_t sp, const char *conf_path)
{
	const struct options *o = options_get();
	_cleanup_(freep) char *value = NULL;
	bool answered;

	if (spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID")) {
		submit_step(o);
	} else {
		forget_outer_job();
		if (published) /* otherwise the next component would get it, too */
			(void)spank_job_control_unsetenv(sp, SPEC_ENV);
		value = cli_filter_take();
		answered = value != NULL;
		if (!answered &&
		    (o->script.n_given || o->command_line.n_given || env_data || o->no_memory))
			value = merge_given(o);
		if (value)
			submit_request(sp, o, value, answered, conf_path);
	}
	options_reset();
}
