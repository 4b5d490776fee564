/*
 * Sources that only some nodes see need a job of their own that fetches them first. That job is
 * not part of this build, and pretending to submit would cost the user a queue's waiting time:
 * so it is said, with the way by hand.
 */
#include "client/cmd.h"

#include <stdio.h>

#include "client/output.h"
#include "common/error.h"

static int run(int argc, char **argv)
{
	output_error("submit is not in this build: it has no mover jobs");
	fputs("Do it by hand: a job on a partition that sees the source copies it to scratch, and\n"
	      "yours depends on it:\n"
	      "  ID=$(sbatch --parsable -p PARTITION --wrap 'cp -r SOURCE $SCRATCH/')\n"
	      "  sbatch --dependency=afterok:$ID --kill-on-invalid-dep=yes \\\n"
	      "         --stage-data='$SCRATCH/NAME' SCRIPT\n", stderr);
	return STAGE_EXIT_USAGE;
}

const struct cmd cmd_submit = {
	.name = "submit",
	.args = "[sbatch options] SCRIPT",
	.summary = "submit a job whose sources compute nodes can't see (not in this build)",
	.help =
	"For sources that only some nodes see, a mover job would fetch them first. This build\n"
	"has no mover jobs; the command says what to do by hand and exits with 2.\n",
	.run = run,
};
