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

int job_time_left_ask(uint64_t *msp)
{
	const char *job = getenv("SLURM_JOB_ID");
	const char *const argv[] = { "squeue", "-h", "-o", "%L", "-j", job, NULL };
	_cleanup_(freep) char *text = NULL;
	uint64_t seconds;
	int r = job ? capture_slurm(argv, SQUEUE_MS, &text) : -ENOENT;

	if (r != 0)
		return r == -ETIMEDOUT ? r : -ENOENT;
	text[strcspn(text, "\n")] = '\0';
	if (job_time_left_from_string(text + strspn(text, " "), &seconds) < 0)
		return -ENOENT;
	*msp = seconds * 1000;
	return 0;
}
