#include "spank/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/submit-notes.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "spank/cli-filter.h"

/*
 * sbatch calls back in this order: the inherited value, the script's lines from the top, the
 * command line. Only the pointer distinguishes them. An inherited value is the string in the
 * environment. The command line's values are in the memory that the kernel made for it, whose
 * bounds are fields 48 and 49 of /proc/self/stat. A script's line is in a buffer of sbatch. srun
 * and salloc read no scripts, so there all other values come from the command line.
 *
 * The values are copied, because Slurm frees a value when the next one comes.
 */
static struct options given;

static bool client_reads_scripts(void)
{
	return spank_context() == S_CTX_ALLOCATOR &&
	       strcmp(program_invocation_short_name, "salloc");
}

int options_parse_stat(const char *stat, uintptr_t *startp, uintptr_t *endp)
{
	const char *p = strrchr(stat, ')'); /* the name before it may contain any character */
	unsigned long start, end;
	int field;

	for (field = 2; p && field < 48; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	if (!p || sscanf(p, "%lu %lu", &start, &end) != 2)
		return -EINVAL;
	*startp = start;
	*endp = end;
	return 0;
}

static void find_cmdline(uintptr_t *startp, uintptr_t *endp)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char buf[2048];
	ssize_t n;

	*startp = *endp = 0;
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return;
	buf[n] = '\0';
	(void)options_parse_stat(buf, startp, endp);
}

enum options_origin options_find_origin(const char *value, const char *inherited,
					uintptr_t cmdline_start, uintptr_t cmdline_end,
					bool can_have_script)
{
	uintptr_t p = (uintptr_t)value;

	if (value == inherited)
		return OPTIONS_INHERITED;
	if (!can_have_script || (p >= cmdline_start && p < cmdline_end))
		return OPTIONS_COMMAND_LINE;
	return OPTIONS_SCRIPT;
}

static enum options_origin get_origin(const char *value, const char *env_name)
{
	uintptr_t start, end;

	find_cmdline(&start, &end);
	return options_find_origin(value, getenv(env_name), start, end, client_reads_scripts());
}

static int values_add(struct options_values *v, const char *value)
{
	const char **values;
	char *copy;

	v->n_given++;
	if (v->n_values == OPTIONS_MAX_VALUES)
		return 0;
	values = realloc(v->values, (v->n_values + 1) * sizeof(*values));
	if (!values)
		return -ENOMEM;
	v->values = values;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	values[v->n_values++] = copy;
	return 0;
}

static void values_deinit(struct options_values *v)
{
	for (size_t i = 0; i < v->n_values; i++)
		free((char *)v->values[i]);
	free(v->values);
	*v = (struct options_values){ 0 };
}

static int replace(const char **textp, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free((char *)*textp);
	*textp = copy;
	return 0;
}

static int data_cb(int val, const char *value, int remote)
{
	int r = 0;

	if (remote)
		return 0; /* the nodes use STAGE_SPEC */
	value = value ? value : "";
	switch (get_origin(value, OPTIONS_ENV_DATA)) {
	case OPTIONS_INHERITED:
		break;
	case OPTIONS_SCRIPT:
		r = values_add(&given.script, value);
		cli_filter_note(SUBMIT_NOTE_SCRIPT, value);
		break;
	case OPTIONS_COMMAND_LINE:
		r = values_add(&given.command_line, value);
		cli_filter_note(SUBMIT_NOTE_COMMAND_LINE, value);
		break;
	}
	given.no_memory |= r < 0;
	return 0;
}

static int wait_cb(int val, const char *value, int remote)
{
	int r = 0;

	if (remote)
		return 0;
	value = value ? value : "";
	switch (get_origin(value, OPTIONS_ENV_WAIT)) {
	case OPTIONS_INHERITED:
		break;
	case OPTIONS_SCRIPT:
		r = replace(&given.wait_script, value);
		break;
	case OPTIONS_COMMAND_LINE:
		r = replace(&given.wait_command_line, value);
		break;
	}
	given.no_memory |= r < 0;
	return 0;
}

void options_register(spank_t sp)
{
	/* Slurm keeps pointers into this table. */
	static struct spank_option table[] = {
		{ (char *)"stage-data", (char *)"[NAME=]SOURCE[:DEST[:OPTIONS]],...",
		  (char *)"Have these datasets on every node of the job (see stage-data(7))", 1, 0,
		  data_cb },
		{ (char *)"stage-wait", (char *)"script|tasks|no",
		  (char *)"What waits until the datasets are ready", 1, 0, wait_cb },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		(void)spank_option_register(sp, &table[i]);
}

const struct options *options_get(void)
{
	return &given;
}

void options_reset(void)
{
	values_deinit(&given.script);
	values_deinit(&given.command_line);
	free((char *)given.wait_script);
	free((char *)given.wait_command_line);
	given = (struct options){ 0 };
}
