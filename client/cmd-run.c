#include "client/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "client/bring-keys.h"
#include "client/items.h"
#include "client/output.h"
#include "client/progress-bar.h"
#include "client/run-command.h"
#include "client/run-session.h"
#include "client/snapshot.h"
#include "client/waitloop.h"
#include "client/warnings.h"
#include "common/config/conf.h"
#include "common/config/spec.h"
#include "common/protocol/env-join.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/file-size-limit.h"

#define MAX_VALUES 64

struct run {
	const char *values[MAX_VALUES];
	size_t n_values;
	uint64_t timeout_ms;
	bool quiet, keep_going;
	const char *dir;
	/* for the command; files that stagectl makes have mode 0700 or 0600 */
	mode_t umask;
	struct rlimit file_size;
	char **command;
	struct run_place place;
	const struct rpc *rpc;
	struct snapshot_list list;
	struct warnings warnings;
	struct progress *progress;
};

enum { OPT_STAGE_DATA = 256, OPT_KEEP_GOING, OPT_DIR };

static const struct option options[] = {
	{ "stage-data", required_argument, NULL, OPT_STAGE_DATA },
	{ "timeout", required_argument, NULL, 't' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "keep-going", no_argument, NULL, OPT_KEEP_GOING },
	{ "dir", required_argument, NULL, OPT_DIR },
	{ 0 },
};

static int parse(struct run *run, int argc, char **argv)
{
	int c;

	while ((c = cmd_next_option(argc, argv, "+qt:", options)) != -1) {
		switch (c) {
		case OPT_STAGE_DATA:
			if (run->n_values == MAX_VALUES)
				return output_usage(argv[0], "too many --stage-data");
			run->values[run->n_values++] = optarg;
			break;
		case 't':
			if (cmd_get_timeout(argv[0], optarg, &run->timeout_ms) < 0)
				return STAGE_EXIT_USAGE;
			break;
		case 'q':
			run->quiet = true;
			break;
		case OPT_DIR:
			run->dir = optarg;
			break;
		case OPT_KEEP_GOING:
			run->keep_going = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	run->command = argv + optind;
	if (optind == argc)
		return output_usage(argv[0], "which command is to be run?");
	if (run->n_values == 0 && getenv("STAGE_DATA"))
		run->values[run->n_values++] = getenv("STAGE_DATA");
	if (run->n_values == 0)
		return output_usage(argv[0], "--stage-data=... says what to stage");
	return 0;
}

/* Checks whether the site has switched staging off, and with RunRules= whether it admits this
 * user. */
static int check_site(char hash[static 17], struct error *err)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	int r;

	r = conf_load(&conf, cmd_get_conf(), err);
	if (r < 0)
		return r;
	memcpy(hash, conf->hash, sizeof(conf->hash));
	return conf_admit_run(conf, items_get_user(), getenv("SLURM_JOB_PARTITION"), err);
}

static int make_spec(struct run *run, char **textp, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	_cleanup_(spec_deinit) struct spec spec = { .wait = CONF_WAIT_NO };
	const char *n_tasks = getenv("SLURM_ARRAY_TASK_COUNT");
	int r;

	spec.array = n_tasks && strcmp(n_tasks, "1");
	r = items_read(&list, run->values, run->n_values, err);
	if (r < 0)
		return r;
	r = check_site(spec.conf_hash, err);
	if (r < 0)
		return r;
	if (dataset_list_to_string(&list, &spec.value) < 0 || spec_to_string(&spec, textp) < 0)
		return error_set(err, ENOMEM, "out of memory");
	run_place_get(&run->place, spec.value, (const char *(*)(const char *))getenv);
	return 0;
}

static void on_dataset(void *arg, const char *op, struct kv **kvp)
{
	const struct snapshot *changed;
	struct run *run = arg;

	if (!strcmp(op, PROTO_OP_NEEDKEYS))
		bring_keys(run->rpc);
	if (!strcmp(op, PROTO_OP_WARNING))
		(void)warnings_add(&run->warnings, kvp);
	if (strcmp(op, PROTO_OP_DATASET) || snapshot_list_update(&run->list, kvp, &changed) < 0)
		return;
	if (run->progress)
		progress_update(run->progress, &run->list, changed);
}

static uint64_t on_tick(void *arg)
{
	struct run *run = arg;

	return run->progress ? progress_tick(run->progress, &run->list) : 0;
}

static int wait_ready(struct run *run, struct run_session *s, struct error *err)
{
	struct rpc_handler h = { .on_message = on_dataset,
				 .on_tick = on_tick,
				 .first_tick_ms = PROGRESS_TICK_MS,
				 .arg = run,
				 .timeout_ms = run->timeout_ms };
	_cleanup_(kv_freep) struct kv *request = rpc_new_request(PROTO_OP_WAIT, NULL, 0);
	char text[512];
	int code;

	if (!run->quiet && run->place.local_id == 0)
		progress_new(&run->progress, stderr, PROGRESS_AUTO);
	if (run->progress) /* the output of several nodes is mixed */
		progress_set_nodes(run->progress, run->place.n_nodes > 1);
	if (request) {
		kv_set(request, "progress", run->progress ? "1" : "0");
		kv_set(request, "keys", "1");
	}
	run->rpc = s->rpc;
	code = rpc_call(s->rpc, request, &h, err);
	progress_free(run->progress);
	run->progress = NULL;
	progress_hold_text(&run->list, text, sizeof(text));
	if (code == STAGE_EXIT_TIMEOUT && text[0])
		error_exit(err, STAGE_EXIT_TIMEOUT, ETIMEDOUT, "timed out, still to come: %s",
			   text);
	if (code == STAGE_EXIT_NO_STAGING)
		run_session_explain(s, err);
	return code;
}

/* Sets NAME=VALUE in this process's environment, which the command inherits. */
static void on_line(void *arg, const char *op, struct kv **kvp)
{
	_cleanup_(freep) char *line = NULL, *value = NULL;
	char *eq;

	if (strcmp(op, PROTO_OP_LINE))
		return;
	line = strdup(kv_get_or_empty(*kvp, "text"));
	eq = line ? strchr(line, '=') : NULL;
	if (!eq || eq == line)
		return;
	*eq = '\0';
	value = env_join(line, getenv(line), eq + 1);
	if (value)
		setenv(line, value, 1);
}

static int get_environment(struct run_session *s, struct error *err)
{
	struct rpc_handler h = { .on_message = on_line };
	_cleanup_(kv_freep) struct kv *request = rpc_new_request(PROTO_OP_ENV, NULL, 0);

	return rpc_call(s->rpc, request, &h, err);
}

/* Returns whether this process prints messages; of several nodes, only the first one does. */
static bool is_teller(const struct run *run)
{
	const char *node = getenv("SLURM_NODEID");

	if (run->quiet || run->place.local_id > 0)
		return false;
	return run->place.n_nodes <= 1 || !node || !strcmp(node, "0");
}

/* Prints what was left out, replaced or done in another way, once. */
static void tell_warnings(struct run *run, const struct run_session *s)
{
	warnings_ask(s->rpc, NULL, 0, on_dataset, run);
	warnings_print(stderr, &run->warnings, &run->list, "stagectl");
}

/* The terminal has not sent a signal that is pending to COMMAND, which does not exist yet. So the
 * signal ends this process, as it does while data is staged. */
static int start_command(const struct run *run, const struct run_session *s)
{
	if (waitloop_is_interrupted()) {
		output_error("interrupted");
		return STAGE_EXIT_INTERRUPTED;
	}
	umask(run->umask);
	file_size_limit_restore(&run->file_size);
	return run_command(run->command, s->is_masked ? &s->old_mask : NULL);
}

static int run_in_session(struct run *run, struct run_session *s)
{
	struct error err = ERROR_INIT;
	int code;

	code = wait_ready(run, s, &err);
	if (code && run->place.local_id == 0)
		output_error("%s", err.text);
	if (code == STAGE_EXIT_INTERRUPTED || (code && !run->keep_going))
		return code;
	if (is_teller(run))
		tell_warnings(run, s);
	err = (struct error)ERROR_INIT;
	code = get_environment(s, &err);
	if (code && !run->keep_going) {
		output_error("%s", err.text);
		return code;
	}
	return start_command(run, s);
}

static int run_without_data(const struct run *run, const struct run_session *s,
			    const struct error *err)
{
	int code = output_fail(err);

	return run->keep_going ? start_command(run, s) : code;
}

static int check_file_size(const struct run *run, struct error *err)
{
	if (run->file_size.rlim_max)
		return 0;
	return error_set(err, EFBIG, "ulimit -Hf is 0: nothing can be staged, not even to memory");
}

static int cmd_run_run(int argc, char **argv)
{
	struct run_session session = RUN_SESSION_NONE;
	_cleanup_(freep) char *spec = NULL;
	struct error err = ERROR_INIT;
	struct run run = { 0 };
	int code;

	code = parse(&run, argc, argv);
	if (code)
		return code;
	if (make_spec(&run, &spec, &err) < 0)
		return output_fail(&err);
	run.umask = umask(077);
	file_size_limit_raise(&run.file_size);
	if (check_file_size(&run, &err) < 0 || run_dir_set_base(run.dir, &err) < 0 ||
	    run_session_open(&session, &run.place, spec, &err) < 0)
		code = run_without_data(&run, &session, &err);
	else
		code = run_in_session(&run, &session);
	run_session_close(&session);
	snapshot_list_deinit(&run.list);
	warnings_deinit(&run.warnings);
	return code;
}

const struct cmd cmd_run = {
	.name = "run",
	.args = "--stage-data=VALUE [OPTION...] [--] COMMAND [ARG...]",
	.summary = "stage, run a command, clean up: without plugin, root or Slurm",
	.help = "Stages VALUE (as for sbatch, see stage-data(7)), runs COMMAND with "
		"STAGE_DATA_DIR,\n"
		"STAGE_DATA_PATH_<NAME> and the other variables in its environment, removes the "
		"data, and\n"
		"exits with COMMAND's status (128 + n for a signal). INT, TERM, HUP, USR1 and USR2 "
		"are\n"
		"passed on to COMMAND. Before COMMAND starts, INT, TERM and HUP end stagectl, and "
		"USR1\n"
		"and USR2 are kept for COMMAND. If staging fails, COMMAND is not started.\n"
		"\n"
		"Under srun, the first task of each node stages for its node. The other tasks wait "
		"for it\n"
		"and share the data. The last task that ends cleans up.\n"
		"\n"
		"  --stage-data=VALUE   may be given several times; default: $STAGE_DATA\n"
		"  --timeout DURATION   give up staging after this time, exit status 124\n"
		"  --keep-going         run COMMAND even if staging has failed\n"
		"  --dir DIR            stage below DIR; default: /dev/shm, or TMPDIR if /dev/shm "
		"is not\n"
		"                       writable\n"
		"  -q, --quiet          no progress\n"
		"\n"
		"Examples:\n"
		"  stagectl run --stage-data=train.tar -- sh -c 'ls $STAGE_DATA_PATH_TRAIN'\n"
		"  srun -N4 --ntasks-per-node=4 stagectl run "
		"--stage-data=/p/data/imagenet.sqsh:shm -- \\\n"
		"       python train.py\n",
	.run = cmd_run_run,
};
