/*
 * stagectl: the user's program. Here is the table of commands and the help that teaches them.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd.h"
#include "client/output.h"
#include "client/srun-nodes.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "common/util/strutil.h"
#include "stage-build.h"

static const struct cmd *const commands[] = {
	&cmd_wait,  &cmd_status,  &cmd_path,	     &cmd_list,	  &cmd_env, &cmd_explain,
	&cmd_add,   &cmd_release, &cmd_report,	     &cmd_log,	  &cmd_run, &cmd_pack,
	&cmd_index, &cmd_submit,  &cmd_check_config, &cmd_doctor,
};

static const char head[] = "stagectl: datasets on the nodes of your Slurm job\n"
			   "\n"
			   "Usage: stagectl COMMAND [OPTIONS] [ARGUMENTS]\n"
			   "\n";

static const char tail[] =
	"\n"
	"Examples:\n"
	"  In a job script, which begins when every dataset is ready:\n"
	"    #SBATCH --stage-data=/p/scratch/proj/imagenet.sqsh\n"
	"    python train.py \"$STAGE_DATA_PATH_IMAGENET\"\n"
	"\n"
	"  What would happen to this source, and why:\n"
	"    stagectl explain /p/scratch/proj/train.tar\n"
	"\n"
	"  Without the plugin, or on your own machine:\n"
	"    srun stagectl run --stage-data=train.tar -- python train.py\n"
	"\n"
	"Exit status: 0 ok, 1 staging failed, 2 usage, 3 not ready yet, 4 no such dataset,\n"
	"5 no staging here, 6 refused by the site, 7 no space or memory, 124 timed out,\n"
	"130 interrupted.\n"
	"\n"
	"'stagectl help COMMAND' has more; stagectl(1) and stage-data(7) have everything.\n";

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *names[sizeof(commands) / sizeof(commands[0]) + 1] = { NULL };
	const char *near;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		names[i] = commands[i]->name;
	near = strutil_nearest(name, names);
	if (name[0] == '-')
		return output_usage("", "there is no option like this: %s", name);
	if (near)
		return output_usage("", "there is no command '%s'; is '%s' meant?", name, near);
	return output_usage("", "there is no command '%s'", name);
}

static int print_help(void)
{
	fputs(head, stdout);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-13s %s\n", commands[i]->name, commands[i]->summary);
	fputs(tail, stdout);
	return STAGE_EXIT_OK;
}

static int print_help_of(const char *name)
{
	const struct cmd *cmd = find_command(name);

	if (!cmd)
		return unknown_command(name);
	printf("stagectl %s: %s\n\nUsage: stagectl %s %s\n\n%s", cmd->name, cmd->summary, cmd->name,
	       cmd->args, cmd->help);
	return STAGE_EXIT_OK;
}

/* Returns whether the command runs another command or script, whose options begin at the first
 * word. That command gets the environment unchanged. */
static bool ends_at_word(const struct cmd *cmd)
{
	return cmd == &cmd_run || cmd == &cmd_submit;
}

/* Returns whether --help is one of the command's own options. These end at "--". */
static bool wants_help(const struct cmd *cmd, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
		if (argv[i][0] != '-' && ends_at_word(cmd))
			return false;
	}
	return false;
}

static int dispatch(int argc, char **argv)
{
	const struct cmd *cmd;

	if (argc < 2)
		return output_usage("", "which command?");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return print_help();
	if (!strcmp(argv[1], "help"))
		return argc > 2 && strcmp(argv[2], "help") ? print_help_of(argv[2]) : print_help();
	if (!strcmp(argv[1], "--version")) {
		printf("stagectl %s\n", STAGE_VERSION);
		return STAGE_EXIT_OK;
	}
	cmd = find_command(argv[1]);
	if (!cmd)
		return unknown_command(argv[1]);
	if (wants_help(cmd, argc - 1, argv + 1))
		return print_help_of(cmd->name);
	if (!ends_at_word(cmd))
		srun_resolve_job_id();
	return cmd->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int code, e;

	fd_fill_standard();
	file_size_limit_catch();
	/* If the parent has set SIGCHLD to be ignored, waitpid() would not work. */
	signal(SIGCHLD, SIG_DFL);
	code = dispatch(argc, argv);
	/* A script that reads the output must see an error if the output is incomplete, even if the
	 * data is not ready yet. */
	e = fflush(stdout) ? errno : 0;
	if (e || ferror(stdout)) {
		output_error("write output: %s", strerror(e ?: EIO));
		if (code == STAGE_EXIT_OK || code == STAGE_EXIT_NOT_READY)
			code = STAGE_EXIT_FAILED;
	}
	return code;
}
