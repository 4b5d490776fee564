/*
 * The output of squeue, as stagingd reads it if slurmd is gone. A slow and simple reader reads the
 * same text, and the results are compared. If a line of a running job is added at the beginning or
 * at the end, the result is that the job runs, or that the text is not understood.
 */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <string.h>

#include "common/slurm/squeue.h"

#define JOB 7

/* One line, cut at its end: whether it is understood, and is the job's. */
static bool read_simply(char *line, bool *oursp)
{
	char *space = strchr(line, ' '), *s;

	if (!space || space == line || space - line > 15 || !space[1] ||
	    strlen(space + 1) >= SQUEUE_STATE_SIZE)
		return false;
	for (s = line; s < space; s++)
		if (!isdigit((unsigned char)*s))
			return false;
	for (s = space + 1; *s; s++)
		if (*s < 'A' || *s > 'Z')
			return false;
	*oursp = strtoull(line, NULL, 10) == JOB;
	return strtoull(line, NULL, 10) <= UINT32_MAX;
}

static bool is_understood(const char *text, size_t size, bool *listedp)
{
	_cleanup_(freep) char *copy = fuzz_text((const uint8_t *)text, size);
	char *line = copy, *end;
	bool ours;

	*listedp = false;
	if (memchr(text, '\0', size) || (size > 0 && text[size - 1] != '\n'))
		return false;
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		if (!read_simply(line, &ours))
			return false;
		*listedp |= ours;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char alive[] = "7 R\n";
	const size_t n = sizeof(alive) - 1;
	_cleanup_(freep) char *more = malloc(n + size + n);
	char state[SQUEUE_STATE_SIZE] = "";
	bool listed, understood = is_understood((const char *)data, size, &listed);
	enum squeue_said said = squeue_read((const char *)data, size, JOB, state);

	FUZZ_CHECK(understood == (said != SQUEUE_NOT_UNDERSTOOD));
	FUZZ_CHECK(!understood || listed == (said != SQUEUE_NOT_LISTED));
	FUZZ_CHECK(said != SQUEUE_ENDED || state[0]);
	if (!understood)
		return 0;
	memcpy(more, alive, n);
	memcpy(more + n, data, size);
	memcpy(more + n + size, alive, n);
	FUZZ_CHECK(squeue_read(more, n + size, JOB, state) == SQUEUE_LIVES);
	FUZZ_CHECK(squeue_read(more + n, size + n, JOB, state) == SQUEUE_LIVES);
	return 0;
}
