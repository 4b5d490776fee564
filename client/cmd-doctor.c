#include "client/cmd.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/doctor.h"
#include "client/json.h"
#include "client/output.h"
#include "common/config/conf.h"
#include "common/util/error.h"
#include "stage-build.h"

static const struct option options[] = {
	{ "quiet", no_argument, NULL, 'q' },
	{ "json", no_argument, NULL, 'j' },
	{ 0 },
};

static const struct doctor_check *const tables[] = {
	doctor_conf_checks,
	doctor_node_checks,
	doctor_slurm_checks,
	doctor_left_checks,
};

static void run_checks(struct doctor *d)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct doctor_check *check = tables[i]; check->subject; check++) {
			d->subject = check->subject;
			check->run(d);
		}
}

static void run_checks_json(struct doctor *d)
{
	struct json j;

	d->json = &j;
	json_init(&j, stdout);
	json_open_object(&j, NULL);
	json_put_text(&j, "version", STAGE_VERSION);
	json_open_array(&j, "checks");
	run_checks(d);
	d->json = NULL;
	json_close_array(&j);
	json_put_u64(&j, "warnings", d->n_levels[DOCTOR_WARN]);
	json_put_u64(&j, "failures", d->n_levels[DOCTOR_FAIL]);
	json_close_object(&j);
	putchar('\n');
}

static int cmd_doctor_run(int argc, char **argv)
{
	struct doctor d = { 0 };
	bool json = false;
	int c;

	while ((c = cmd_next_option(argc, argv, "qj", options)) != -1) {
		if (c == '?')
			return STAGE_EXIT_USAGE;
		if (c == 'j')
			json = true;
		else
			d.quiet = true;
	}
	if (optind < argc)
		return output_usage(argv[0], "it takes no arguments");
	if (json)
		run_checks_json(&d);
	else
		run_checks(&d);
	conf_free(d.conf);
	return d.n_levels[DOCTOR_FAIL] ? STAGE_EXIT_FAILED : STAGE_EXIT_OK;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.args = "[--quiet] [--json]",
	.summary = "print what this node lacks for staging, and how to fix it",
	.help = "Looks at the configuration and what it names, FUSE, helpers, kernel, memory, "
		"cgroups, Slurm's\n"
		"hooks, the plugin, slurmd and leftovers. \"warn\": a method or a protection "
		"is missing.\n"
		"\"FAIL\": staging does not work. The line below says how to fix it. Run it as "
		"root on "
		"a compute\n"
		"node to see everything; for a user, it leaves out what only root can look at.\n"
		"\n"
		"  -q, --quiet   warnings and failures only\n"
		"  -j, --json    one JSON object: {\"version\", \"checks\": [...], \"warnings\", "
		"\"failures\"}\n"
		"\n"
		"Exit status: 0 nothing fails, 1 something does.\n",
	.run = cmd_doctor_run,
};
