/*
 * sbatch for jobs with sources that only some nodes see. sbatch is run in any case, with the user's
 * arguments, because only sbatch knows all of its options. If a mover is needed, another
 * --stage-data, which names the copies, and a dependency are added.
 */
#include "client/cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/items.h"
#include "client/output.h"
#include "client/run-command.h"
#include "client/submit-copy.h"
#include "client/submit-filter.h"
#include "client/submit-mover.h"
#include "client/submit-words.h"
#include "common/config/conf.h"
#include "common/util/error.h"
#include "common/util/strutil.h"

static int run_plain(const struct submit_words *w)
{
	_cleanup_(freep) char **argv = submit_words_get_argv(w, NULL, 0, 0);

	if (argv)
		return run_command(argv, NULL);
	output_error("out of memory");
	return STAGE_EXIT_FAILED;
}

static int run_waiting(const struct submit_words *w, const struct dataset_list *list,
		       const struct mover_jobs *jobs)
{
	_cleanup_(freep) char *value = NULL, *data = NULL, *afterok = NULL, *dependency = NULL;
	_cleanup_(freep) char **argv = NULL;
	char *first[3];
	size_t n = 0;

	if (dataset_list_to_string(list, &value) == 0)
		data = strutil_printf("--stage-data=%s", value);
	first[n++] = data;
	if (jobs->n_jobs) {
		afterok = mover_make_dependency(jobs, w->dependency);
		if (afterok)
			dependency = strutil_printf("--dependency=%s", afterok);
		first[n++] = dependency;
		first[n++] = (char *)"--kill-on-invalid-dep=yes";
	}
	if (data && (dependency || !jobs->n_jobs))
		argv = submit_words_get_argv(w, first, n,
					     SUBMIT_WORD_DATA |
						     (jobs->n_jobs ? SUBMIT_WORD_DEPENDENCY : 0));
	if (argv)
		return run_command(argv, NULL);
	output_error("out of memory");
	return STAGE_EXIT_FAILED;
}

static int submit_with_copies(const struct submit_words *w, const struct dataset_list *list,
			      struct submit_copies *copies)
{
	struct error err = ERROR_INIT;
	struct mover_jobs jobs;
	int code;

	if (submit_words_check_mover(w, copies->items[0].name, &err) < 0 ||
	    mover_bring(&jobs, copies, w->account, &err) < 0)
		return output_fail(&err);
	code = run_waiting(w, list, &jobs);
	if (code)
		mover_cancel(&jobs);
	return code;
}

/* If the configuration cannot be read, there are no movers, and sbatch reports the error. */
static int submit_value(const struct submit_words *w, const char *value)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	_cleanup_(submit_copies_deinit) struct submit_copies copies = { 0 };
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct error err = ERROR_INIT;

	if (items_read(&list, &value, 1, &err) < 0)
		return output_fail(&err);
	if (conf_load(&conf, cmd_get_conf(), NULL) < 0)
		return run_plain(w);
	if (submit_copies_find(&copies, conf, &list, &err) < 0)
		return output_fail(&err);
	return copies.n_items ? submit_with_copies(w, &list, &copies) : run_plain(w);
}

static int submit(struct submit_words *w, const char *verb, size_t n_args, char **argv)
{
	_cleanup_(freep) char *value = NULL;
	struct error err = ERROR_INIT;

	if (submit_words_read(w, n_args, argv, &err) < 0)
		return output_fail(&err);
	if (w->only_asks)
		return run_plain(w);
	if (!w->has_script)
		return output_usage(verb, "which script?");
	if (submit_words_merge(w, &value, &err) < 0)
		return output_fail(&err);
	return value ? submit_value(w, value) : run_plain(w);
}

static int cmd_submit_run(int argc, char **argv)
{
	_cleanup_(submit_words_deinit) struct submit_words w = { 0 };

	if (argc > 1 && !strcmp(argv[1], "--filter"))
		return submit_filter((size_t)argc - 2, argv + 2);
	return submit(&w, argv[0], (size_t)argc - 1, argv + 1);
}

const struct cmd cmd_submit = {
	.name = "submit",
	.args = "[sbatch options] SCRIPT [ARGUMENTS]",
	.summary = "sbatch for jobs whose sources compute nodes can't see",
	.help = "Submits SCRIPT by sbatch, with all of sbatch's options. Datasets whose [source] "
		"has\n"
		"VisibleOn=mover are copied to the scratch tier first, by a mover: a job of yours "
		"on a\n"
		"partition whose nodes see them. Your job waits for the mover "
		"(--dependency=afterok) and\n"
		"stages the copy, under the same names. If the mover fails, your job is cancelled, "
		"and its\n"
		"comment has the reason. A complete copy of an unchanged source is used again "
		"without a\n"
		"mover. If one of your movers is pending or running for the same source, your job "
		"waits for\n"
		"that one. An interrupted copy is completed.\n"
		"\n"
		"Without such datasets, the command only calls sbatch.\n"
		"\n"
		"Example:\n"
		"  stagectl submit -A proj --time=2:00:00 job.sh\n",
	.run = cmd_submit_run,
};
