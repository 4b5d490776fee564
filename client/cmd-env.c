/*
 * Prints the environment of the job: for a shell, or as the list of directories that must be bound
 * in a container so that its paths are valid there, too. The datasets are below the run directory,
 * or are mounted there. If an entry is a link to another place (to the source, or to a disk if it
 * could not be mounted), its target must be bound, too. In `stagectl run` the path is that target
 * itself. Targets are read by readlink only: nothing here touches the data.
 */
#include "client/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/output.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "common/protocol/env-join.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/path.h"

enum format { FORMAT_SH, FORMAT_APPTAINER, FORMAT_PYXIS };

static const struct option options[] = {
	{ "sh", no_argument, NULL, FORMAT_SH + 256 },
	{ "apptainer", no_argument, NULL, FORMAT_APPTAINER + 256 },
	{ "pyxis", no_argument, NULL, FORMAT_PYXIS + 256 },
	{ 0 },
};

/* Prints export NAME='value', with ' written as '\''. */
static void print_export(const char *line)
{
	const char *eq = strchr(line, '=');
	_cleanup_(freep) char *name = eq ? strndup(line, (size_t)(eq - line)) : NULL;
	_cleanup_(freep) char *value = name ? env_join(name, getenv(name), eq + 1) : NULL;

	if (!value)
		return;
	printf("export %s='", name);
	for (const char *p = value; *p; p++) {
		if (*p == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*p);
	}
	puts("'");
}

static void on_line(void *arg, const char *op, struct kv **kvp)
{
	if (!strcmp(op, PROTO_OP_LINE))
		print_export(kv_get_or_empty(*kvp, "text"));
}

/* Finds the directory of the job's socket. The path of a dataset would not do: it may be on a
 * disk. */
static int get_rundir(char *buf, size_t size, struct error *err)
{
	int r = rpc_find_socket(buf, size, err);
	char *slash;

	if (r < 0)
		return r;
	slash = strrchr(buf, '/');
	if (buf[0] != '/' || slash == buf)
		return error_set(err, EINVAL, "%s is not a path of a socket of ours", buf);
	*slash = '\0';
	return 0;
}

/* Reads the target of a link; a path that is not a link is its own target. Returns false if it does
 * not exist. */
static bool get_target(const char *path, char *buf, size_t size)
{
	ssize_t n = readlink(path, buf, size - 1);

	if (n < 0 && errno == EINVAL)
		n = snprintf(buf, size, "%s", path);
	if (n <= 0 || (size_t)n >= size)
		return false;
	buf[n] = '\0';
	return true;
}

static int print_bind(const char *path, enum format format, bool first)
{
	if (strpbrk(path, ",:")) {
		output_error("%s can't be bound: it has a comma or a colon in its name", path);
		return STAGE_EXIT_FAILED;
	}
	printf("%s%s:%s", first ? "" : ",", path, path);
	return 0;
}

static int print_binds(const struct snapshot_list *l, enum format format)
{
	char rundir[PATH_MAX], target[PATH_MAX];
	struct error err = ERROR_INIT;
	int code;

	if (l->n_items == 0)
		return STAGE_EXIT_OK;
	if (get_rundir(rundir, sizeof(rundir), &err) < 0)
		return output_fail(&err);
	code = print_bind(rundir, format, true);
	for (size_t i = 0; i < l->n_items && code == 0; i++) {
		if (l->items[i].state != STAGE_READY)
			output_error("%s is not ready: a container that begins before may not "
				     "see it",
				     l->items[i].name);
		if (get_target(l->items[i].path, target, sizeof(target)) && target[0] == '/' &&
		    !path_is_beneath(target, rundir))
			code = print_bind(target, format, false);
	}
	putchar('\n');
	return code;
}

static int cmd_env_run(int argc, char **argv)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list list = { 0 };
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	enum format format = FORMAT_SH;
	struct rpc_handler h = { 0 };
	struct error err = ERROR_INIT;
	int c, code;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c == '?')
			return STAGE_EXIT_USAGE;
		format = (enum format)(c - 256);
	}
	if (optind < argc)
		return output_usage(argv[0], "it takes no names");
	if (rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = rpc_new_request(format == FORMAT_SH ? PROTO_OP_ENV : PROTO_OP_STATUS, NULL, 0);
	h.on_message = format == FORMAT_SH ? on_line : snapshot_list_on_message;
	h.arg = &list;
	code = rpc_call(rpc, request, &h, &err);
	if (code) {
		output_fail(&err);
		return code;
	}
	return format == FORMAT_SH ? STAGE_EXIT_OK : print_binds(&list, format);
}

const struct cmd cmd_env = {
	.name = "env",
	.args = "[--sh | --apptainer | --pyxis]",
	.summary = "print the job's variables, or the paths to bind in a container",
	.help = "  --sh          export lines for a shell (the default)\n"
		"  --apptainer   the value for apptainer exec --bind\n"
		"  --pyxis       the value for srun --container-mounts\n"
		"\n"
		"The paths are the same inside and outside of the container.\n"
		"\n"
		"Examples:\n"
		"  eval \"$(stagectl env)\"\n"
		"  apptainer exec --bind \"$(stagectl env --apptainer)\" image.sif python "
		"train.py\n"
		"  srun --container-image=pytorch --container-mounts=\"$(stagectl env --pyxis)\" "
		"...\n",
	.run = cmd_env_run,
};
