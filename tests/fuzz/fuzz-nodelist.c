/*
 * Lists of nodes as Slurm writes them. A list of thousands of nodes takes a thousand times as long
 * as others and tests little more. So only one in 256 of these is read unchanged. In the others,
 * commas replace dashes and the end is cut off until the list has fewer nodes. The sum of the bytes
 * decides which lists are read unchanged.
 */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>

#include "daemon/stagingd/nodelist.h"

#define MANY 500

/* From dash on: how many more numbers than without it. */
static uint64_t count_range(const char *text, const char *dash)
{
	uint64_t from, to = strtoul(dash + 1, NULL, 10);
	const char *s = dash;

	while (s > text && isdigit((unsigned char)s[-1]))
		s--;
	from = strtoul(s, NULL, 10);
	return to > from && to - from < NODELIST_MAX ? to - from : 0;
}

/* The bracket with which it becomes many, as if all stood in one item. */
static char *find_many(char *text)
{
	uint64_t total = 1, names;
	char *open, *s = text;

	while ((open = strchr(s, '['))) {
		names = 1;
		for (s = open + 1; *s && *s != ']'; s++)
			names += *s == ',' ? 1 : *s == '-' ? count_range(text, s) : 0;
		total *= names;
		if (total >= MANY)
			return open;
	}
	return NULL;
}

static void make_fewer(char *text)
{
	char *open;

	if (!find_many(text))
		return;
	for (char *s = text; (s = strchr(s, '-')); s++)
		*s = ',';
	open = find_many(text);
	if (open)
		*open = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);
	uint32_t index, n;
	uint8_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum += data[i];
	if (sum)
		make_fewer(text);
	if (nodelist_find(text, "n2", &index, &n) == 0)
		FUZZ_CHECK(index < n && n <= NODELIST_MAX);
	return 0;
}
