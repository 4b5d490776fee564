#include "client/submit-filter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd.h"
#include "client/items.h"
#include "client/output.h"
#include "client/submit-copy.h"
#include "client/submit-mover.h"
#include "client/submit-words.h"
#include "common/config/conf.h"
#include "common/protocol/submit-notes.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

/* ---- the plugin's notes ---- */

/* Finds the descriptor of the plugin's notes. Returns false if there are none, as without
 * --stage-data. */
static bool find_notes(int *fdp)
{
	const char *text = getenv(SUBMIT_NOTES_ENV);
	uint32_t fd;

	if (!text || parse_uint32(text, &fd) < 0 || fd < 3 || fd > INT32_MAX)
		return false;
	*fdp = (int)fd;
	return lseek(*fdp, 0, SEEK_SET) == 0;
}

/* Merges the values in the notes as the plugin does. Returns NULL if there are none, or if the
 * plugin would refuse them. */
static char *merge_notes(const char *text, size_t size)
{
	const char *script[SUBMIT_MAX_VALUES], *command_line[SUBMIT_MAX_VALUES], *env = NULL;
	size_t n_script = 0, n_command_line = 0;
	_cleanup_(freep) char *base = NULL;
	char *value = NULL;
	int r;

	for (const char *p = text; p < text + size; p += strlen(p) + 1) {
		if (*p == SUBMIT_NOTE_ENVIRONMENT)
			env = p + 1;
		else if (*p == SUBMIT_NOTE_SCRIPT && n_script < SUBMIT_MAX_VALUES)
			script[n_script++] = p + 1;
		else if (*p == SUBMIT_NOTE_COMMAND_LINE && n_command_line < SUBMIT_MAX_VALUES)
			command_line[n_command_line++] = p + 1;
		else
			return NULL; /* too many values, or an unknown note */
	}
	r = dataset_merge(&base, script, n_script, &env, env != NULL, NULL);
	if (r == 0)
		r = dataset_merge(&value, (const char *const *)&base, base != NULL, command_line,
				  n_command_line, NULL);
	return r < 0 ? NULL : value;
}

static int leave_answer(int fd, const struct dataset_list *list, struct error *err)
{
	_cleanup_(freep) char *value = NULL, *record = NULL;
	int r = dataset_list_to_string(list, &value);

	if (r == 0)
		record = strutil_printf("%c%s", SUBMIT_NOTE_ANSWER, value);
	if (r == 0 && !record)
		r = -ENOMEM;
	if (r == 0 && lseek(fd, 0, SEEK_END) < 0)
		r = -errno;
	if (r == 0)
		r = fd_write_all(fd, record, strlen(record) + 1);
	return r < 0 ? error_errno(err, -r, "tell sbatch where the copies will be") : 0;
}

/* ---- the job ---- */

struct job_options {
	const char *account, *dependency;
	bool other_cluster, test_only, is_het;
};

static void read_options(struct job_options *o, size_t n_args, char **args)
{
	for (size_t i = 0; i < n_args; i++) {
		if (!strncmp(args[i], "--account=", 10))
			o->account = args[i] + 10;
		else if (!strncmp(args[i], "--dependency=", 13))
			o->dependency = args[i] + 13;
		else if (!strncmp(args[i], "--clusters=", 11))
			o->other_cluster = true;
		else if (!strcmp(args[i], "--test-only"))
			o->test_only = true;
		else if (!strcmp(args[i], "--het"))
			o->is_het = true;
	}
}

static int bring(int fd, struct dataset_list *list, struct submit_copies *copies,
		 const struct job_options *o)
{
	struct submit_words words = { .dependency = (char *)o->dependency,
				      .other_cluster = o->other_cluster,
				      .test_only = o->test_only,
				      .is_het = o->is_het };
	_cleanup_(freep) char *dependency = NULL;
	struct error err = ERROR_INIT;
	struct mover_jobs jobs;

	if (submit_words_check_mover(&words, copies->items[0].name, &err) < 0 ||
	    mover_bring(&jobs, copies, o->account, &err) < 0)
		return output_fail(&err);
	if (jobs.n_jobs)
		dependency = mover_make_dependency(&jobs, o->dependency);
	if ((jobs.n_jobs && !dependency) || leave_answer(fd, list, &err) < 0) {
		mover_cancel(&jobs);
		return output_fail(&err);
	}
	if (dependency)
		puts(dependency);
	return STAGE_EXIT_OK;
}

int submit_filter(size_t n_args, char **args)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	_cleanup_(submit_copies_deinit) struct submit_copies copies = { 0 };
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(freep) char *text = NULL, *value = NULL;
	struct job_options options = { 0 };
	struct error err = ERROR_INIT;
	size_t size;
	int fd;

	read_options(&options, n_args, args);
	if (!find_notes(&fd) || fd_read_file(fd, SUBMIT_NOTES_MAX_SIZE, &text, &size) < 0)
		return STAGE_EXIT_OK;
	(void)fd_set_cloexec(fd, true);
	unsetenv(SUBMIT_NOTES_ENV);
	value = merge_notes(text, size);
	if (!value || items_read(&list, (const char *const *)&value, 1, NULL) < 0 ||
	    conf_load(&conf, cmd_get_conf(), NULL) < 0)
		return STAGE_EXIT_OK;
	if (submit_copies_find(&copies, conf, &list, &err) < 0)
		return output_fail(&err);
	return copies.n_items ? bring(fd, &list, &copies, &options) : STAGE_EXIT_OK;
}
