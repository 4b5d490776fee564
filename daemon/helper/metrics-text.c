/*
 * The text has Prometheus' exposition format, as the node exporter's textfile collector reads it.
 * It consists of texts from the tables below and of numbers. Nothing in it was written by a user.
 */
#include "daemon/helper/helper.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "common/protocol/counts.h"
#include "common/protocol/keeper-helper.h"
#include "common/protocol/keeper-verbs.h"
#include "common/util/cleanup.h"
#include "stage-build.h"

/* clang-format off */
static const struct row {
	const char *name, *help;  /* NULL: the same as in the row before */
	const char *label;        /* NULL: no label */
	enum count count;
	bool gauge;
} rows[] = {
	{ "jobs_total", "Jobs that asked for data and have ended on this node.", NULL, COUNT_JOBS },
	{ "jobs_not_set_up_total", "Jobs with datasets for which staging could not start.",
	  NULL, COUNT_JOBS_NOT_SET_UP },

	{ "keeper_deaths_total", "Keepers that died before they were asked to end.", NULL, COUNT_KEEPER_DEATHS },

	{ "breaker_open", "1: staging is off on this node, because several keepers have died.",
	  NULL, COUNT_BREAKER_OPEN, true },
	{ "leftovers", "Leftovers of ended jobs that the last clean-up could not remove.",
	  NULL, COUNT_LEFTOVERS, true },

	{ "datasets_total", "Datasets of ended jobs, by result.",
	  "result=\"ready\"", COUNT_READY },
	{ NULL, NULL, "result=\"failed\"",    COUNT_FAILED },
	{ NULL, NULL, "result=\"cancelled\"", COUNT_CANCELLED },

	{ "ready_total", "Datasets that became ready, by method.", "method=\"copy\"", COUNT_BY_COPY },
	{ NULL, NULL, "method=\"extract\"", COUNT_BY_EXTRACT },
	{ NULL, NULL, "method=\"mount\"",   COUNT_BY_MOUNT },
	{ NULL, NULL, "method=\"link\"",    COUNT_BY_LINK },

	{ "failures_total", "Datasets that failed, by cause.", "cause=\"rules\"", COUNT_CAUSE_RULES },
	{ NULL, NULL, "cause=\"space\"",   COUNT_CAUSE_SPACE },
	{ NULL, NULL, "cause=\"time\"",    COUNT_CAUSE_TIME },
	{ NULL, NULL, "cause=\"missing\"", COUNT_CAUSE_MISSING },
	{ NULL, NULL, "cause=\"denied\"",  COUNT_CAUSE_DENIED },
	{ NULL, NULL, "cause=\"io\"",      COUNT_CAUSE_IO },
	{ NULL, NULL, "cause=\"content\"", COUNT_CAUSE_CONTENT },
	{ NULL, NULL, "cause=\"died\"",    COUNT_CAUSE_DIED },
	{ NULL, NULL, "cause=\"other\"",   COUNT_CAUSE_OTHER },

	{ "mounts_total", "FUSE mounts of datasets.", NULL, COUNT_MOUNTS },
	{ "files_total", "Files of datasets that became ready.", NULL, COUNT_FILES },

	{ "bytes_total", "Bytes read for datasets that became ready, by method.",
	  "method=\"copy\"", COUNT_BYTES_COPY },
	{ NULL, NULL, "method=\"extract\"", COUNT_BYTES_EXTRACT },
	{ NULL, NULL, "method=\"mount\"",   COUNT_BYTES_MOUNT },
	{ NULL, NULL, "method=\"link\"",    COUNT_BYTES_LINK },

	{ "seconds_total", "Seconds until datasets were ready, by method.",
	  "method=\"copy\"", COUNT_MS_COPY },
	{ NULL, NULL, "method=\"extract\"", COUNT_MS_EXTRACT },
	{ NULL, NULL, "method=\"mount\"",   COUNT_MS_MOUNT },
	{ NULL, NULL, "method=\"link\"",    COUNT_MS_LINK },
};
/* clang-format on */

static void print_value(FILE *f, enum count count, uint64_t value)
{
	if (count >= COUNT_MS_COPY && count <= COUNT_MS_LINK)
		fprintf(f, " %llu.%03llu\n", (unsigned long long)value / 1000,
			(unsigned long long)value % 1000);
	else
		fprintf(f, " %llu\n", (unsigned long long)value);
}

/* Returns 0, or a positive errno. */
static int print_all(FILE *f, const uint64_t *sums)
{
	const char *name = "";

	errno = 0;
	fputs("# HELP stage_data_build_info The version that wrote these figures.\n"
	      "# TYPE stage_data_build_info gauge\n"
	      "stage_data_build_info{version=\"" STAGE_VERSION "\"} 1\n",
	      f);
	for (const struct row *row = rows; row < rows + ARRAY_SIZE(rows); row++) {
		if (row->name) {
			name = row->name;
			fprintf(f, "# HELP stage_data_%s %s\n# TYPE stage_data_%s %s\n", name,
				row->help, name, row->gauge ? "gauge" : "counter");
		}
		fprintf(f, "stage_data_%s%s%s%s", name, row->label ? "{" : "", row->label ?: "",
			row->label ? "}" : "");
		print_value(f, row->count, sums[row->count]);
	}
	return fflush(f) == 0 && !ferror(f) ? 0 : errno ?: EIO;
}

void helper_metrics(char **argv)
{
	uint64_t sums[COUNT_N] = { 0 };
	FILE *f = fdopen(HELPER_FD_ANSWER, "w");
	int e = f && pread(HELPER_FD_DIR, sums, sizeof(sums), 0) >= 0 ? 0 : errno;

	e = e ?: print_all(f, sums);
	_exit(e ? KEEPER_EXIT_EXEC + e : 0);
}
