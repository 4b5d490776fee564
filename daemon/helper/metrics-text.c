/*
 * The text is Prometheus' exposition format as the node exporter's textfile collector reads it. All
 * that stands in it is from the tables below and a number: nothing that a user wrote.
 */
#include "daemon/helper/helper.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "common/protocol/counts.h"
#include "common/protocol/keeper-helper.h"
#include "common/util/cleanup.h"
#include "stage-build.h"

/* clang-format off */
static const struct row {
	const char *name, *help;  /* NULL: of the row before */
	enum count count;
	const char *label;        /* NULL: none */
	bool gauge;
} rows[] = {
	{ "jobs_total", "Jobs that asked for data and have ended on this node.", COUNT_JOBS, NULL },
	{ "jobs_not_set_up_total", "Jobs of these for which staging could not begin at all.",
	  COUNT_JOBS_NOT_SET_UP, NULL },

	{ "keeper_deaths_total", "Keepers of jobs that died without having been told to end.", COUNT_KEEPER_DEATHS, NULL },

	{ "breaker_open", "1: nothing is staged on this node, as several keepers have died.",
	  COUNT_BREAKER_OPEN, NULL, true },
	{ "leftovers", "What ended jobs have left and could not be removed, when it was tried last.",
	  COUNT_LEFTOVERS, NULL, true },

	{ "datasets_total", "Datasets of these jobs, by what became of them.",
	  COUNT_READY, "result=\"ready\"" },
	{ NULL, NULL, COUNT_FAILED,    "result=\"failed\"" },
	{ NULL, NULL, COUNT_CANCELLED, "result=\"cancelled\"" },

	{ "ready_total", "Datasets that became ready, by method.", COUNT_BY_COPY, "method=\"copy\"" },
	{ NULL, NULL, COUNT_BY_EXTRACT, "method=\"extract\"" },
	{ NULL, NULL, COUNT_BY_MOUNT,   "method=\"mount\"" },
	{ NULL, NULL, COUNT_BY_LINK,    "method=\"link\"" },

	{ "failures_total", "Datasets that failed, by cause.", COUNT_CAUSE_RULES, "cause=\"rules\"" },
	{ NULL, NULL, COUNT_CAUSE_SPACE,   "cause=\"space\"" },
	{ NULL, NULL, COUNT_CAUSE_TIME,    "cause=\"time\"" },
	{ NULL, NULL, COUNT_CAUSE_MISSING, "cause=\"missing\"" },
	{ NULL, NULL, COUNT_CAUSE_DENIED,  "cause=\"denied\"" },
	{ NULL, NULL, COUNT_CAUSE_IO,      "cause=\"io\"" },
	{ NULL, NULL, COUNT_CAUSE_CONTENT, "cause=\"content\"" },
	{ NULL, NULL, COUNT_CAUSE_DIED,    "cause=\"died\"" },
	{ NULL, NULL, COUNT_CAUSE_OTHER,   "cause=\"other\"" },

	{ "mounts_total", "FUSE mounts that datasets were given.", COUNT_MOUNTS, NULL },
	{ "files_total", "Files of datasets that became ready.", COUNT_FILES, NULL },

	{ "bytes_total", "Bytes read for datasets that became ready, by method.",
	  COUNT_BYTES_COPY, "method=\"copy\"" },
	{ NULL, NULL, COUNT_BYTES_EXTRACT, "method=\"extract\"" },
	{ NULL, NULL, COUNT_BYTES_MOUNT,   "method=\"mount\"" },
	{ NULL, NULL, COUNT_BYTES_LINK,    "method=\"link\"" },

	{ "seconds_total", "Seconds until datasets were ready, by method.",
	  COUNT_MS_COPY, "method=\"copy\"" },
	{ NULL, NULL, COUNT_MS_EXTRACT, "method=\"extract\"" },
	{ NULL, NULL, COUNT_MS_MOUNT,   "method=\"mount\"" },
	{ NULL, NULL, COUNT_MS_LINK,    "method=\"link\"" },
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

static int print_all(FILE *f, const uint64_t *sums)
{
	const char *name = "";

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
	return fflush(f) == 0 && !ferror(f) ? 0 : -1;
}

void helper_metrics(char **argv)
{
	uint64_t sums[COUNT_N] = { 0 };
	FILE *f = fdopen(HELPER_FD_ANSWER, "w");

	if (!f || pread(HELPER_FD_DIR, sums, sizeof(sums), 0) < 0)
		_exit(1);
	_exit(print_all(f, sums) < 0);
}
