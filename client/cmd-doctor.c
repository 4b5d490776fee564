#include "client/cmd.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/doctor.h"
#include "client/output.h"
#include "common/config/conf.h"
#include "common/util/error.h"

static const struct option options[] = { { "quiet", no_argument, NULL, 'q' }, { 0 } };

static const struct doctor_check *const tables[] = {
	doctor_conf_checks,
	doctor_node_checks,
	doctor_slurm_checks,
	doctor_left_checks,
};

void doctor_tell(struct doctor *d, enum doctor_level level, const char *mend, const char *fmt, ...)
{
	static const char *const words[] = { "ok  ", "warn", "FAIL" };
	char text[ERROR_MAX_SIZE], line[2 * ERROR_MAX_SIZE];
	va_list ap;

	d->n_levels[level]++;
	if (d->quiet && level == DOCTOR_OK)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "%s  %-14s %s", words[level], d->subject, text);
	output_lines(stdout, "", line);
	if (mend)
		output_lines(stdout, "                     -> ", mend);
}

static int run(int argc, char **argv)
{
	struct doctor d = { 0 };
	int c;

	while ((c = cmd_next_option(argc, argv, "q", options)) != -1) {
		if (c == '?')
			return STAGE_EXIT_USAGE;
		d.quiet = true;
	}
	if (optind < argc)
		return output_usage(argv[0], "it takes no arguments");
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct doctor_check *check = tables[i]; check->subject; check++) {
			d.subject = check->subject;
			check->run(&d);
		}
	conf_free(d.conf);
	return d.n_levels[DOCTOR_FAIL] ? STAGE_EXIT_FAILED : STAGE_EXIT_OK;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.args = "[--quiet]",
	.summary = "say what this node lacks for staging, and the mend",
	.help =
	"Looks at the configuration and what it names, FUSE, helpers, kernel, memory, cgroups, Slurm's\n"
	"hooks, the plugin, slurmd and leftovers. \"warn\" costs something (a method, a safety net),\n"
	"\"FAIL\" costs the feature; below each stands what mends it. Run it as root on a compute node\n"
	"to see everything; as a user it leaves out what only root can look at.\n"
	"\n"
	"  -q, --quiet   warnings and failures only\n"
	"\n"
	"Exit status: 0 nothing fails, 1 something does.\n",
	.run = run,
};
