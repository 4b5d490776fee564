#include "client/job-time-left.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/capture.h"
#include "common/util/cleanup.h"

#define SQUEUE_MS 1000

/* Days, hours, minutes, seconds. n: how many of this unit make one of the unit before; end: the
 * character after the field. */
static const struct {
	unsigned n;
	char end;
} fields[] = { { 0, '-' }, { 24, ':' }, { 60, ':' }, { 60, '\0' } };

int job_time_left_from_string(const char *text, uint64_t *secondsp)
{
	const char *dash = strchr(text, '-');
	size_t n_colons = 0, at;
	uint64_t sum = 0;
	char *end;

	for (const char *c = text; *c; c++)
		n_colons += *c == ':';
	if (n_colons < 1 || n_colons > 2 || (dash && n_colons != 2))
		return -EINVAL;
	for (at = dash ? 0 : 3 - n_colons; at < ARRAY_SIZE(fields); at++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		sum = sum * fields[at].n + strtoul(text, &end, 10);
		if (*end != fields[at].end)
			return -EINVAL;
		text = end + 1;
	}
	*secondsp = sum;
	return 0;
}

/* Returns the time in the line "ID TIME" of this job, or "". For the number of an array or of a
 * heterogeneous job, which is also that of one of its jobs, Slurm lists all of them. */
static const char *find_time(char *text, const char *job)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *id = line + strspn(line, " "), *end = id + strcspn(id, " ");

		if (!*end)
			continue;
		*end++ = '\0';
		if (!strcmp(id, job))
			return end + strspn(end, " ");
	}
	return "";
}

int job_time_left_ask(uint64_t *msp)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *const argv[] = { "squeue", "-h", "-o", "%A %L", "-j", job, NULL };
	_cleanup_(freep) char *text = NULL;
	uint64_t seconds;
	int r = job ? capture_slurm(argv, SQUEUE_MS, &text) : -ENOENT;

	if (r != 0)
		return r == -ETIMEDOUT ? r : -ENOENT;
	if (job_time_left_from_string(find_time(text, job), &seconds) < 0)
		return -ENOENT;
	*msp = seconds * 1000;
	return 0;
}
