/*
 * The index itself is made by stage-index, which has the reader of tars.
 */
#include "client/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/out-file.h"
#include "client/output.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

#define INDEX_SUFFIX ".stage-index" /* same as INDEX_FILE_SUFFIX */

static const struct option options[] = { { "nested", no_argument, NULL, 'n' }, { 0 } };

static int cmd_index_run(int argc, char **argv)
{
	_cleanup_(freep) char *archive = NULL;
	_cleanup_(freep) char *index = NULL;
	char program[PATH_MAX], out[PATH_MAX];
	struct error err = ERROR_INIT;
	bool nested = false;
	int c, r;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c != 'n')
			return STAGE_EXIT_USAGE;
		nested = true;
	}
	if (argc - optind != 1)
		return output_usage(argv[0], "it takes one tar");
	archive = realpath(argv[optind], NULL);
	if (!archive)
		return output_fail((error_errno(&err, errno, "%s", argv[optind]), &err));
	if (cmd_get_helper(program, sizeof(program), "stage-index") < 0 ||
	    snprintf(out, sizeof(out), "%s" INDEX_SUFFIX, archive) >= PATH_MAX)
		return output_fail(
			(error_set(&err, ENAMETOOLONG,
				   "%s is too long a name; move the tar to a directory with a "
				   "shorter path",
				   archive),
			 &err));
	r = out_file_resolve(&index, out);
	if (r < 0)
		return output_fail((error_errno(&err, -r, "%s", out), &err));
	execl(program, "stage-index", archive, index, nested ? "nested" : NULL, (char *)NULL);
	return output_fail((error_errno(&err, errno, "%s", program), &err));
}

const struct cmd cmd_index = {
	.name = "index",
	.args = "[--nested] TAR",
	.summary = "write the index of a tar beside it, so that jobs mount it at once",
	.help = "Reads the headers of a plain tar once and writes TAR.stage-index. A job that "
		"mounts the\n"
		"tar (method=mount) then reads this file instead of the headers. Make it again "
		"when the\n"
		"tar has changed: an index that does not fit is not used, and the job prints a "
		"warning.\n"
		"\n"
		"  --nested   also index the members of the tars in TAR, for jobs with the option "
		"nested\n"
		"\n"
		"Example:\n"
		"  stagectl index /p/scratch/proj/train.tar\n",
	.run = cmd_index_run,
};
