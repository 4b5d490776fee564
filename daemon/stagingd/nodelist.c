/*
 * Each item is a sequence of plain pieces and bracketed lists of ranges; nodes are the product of
 * the brackets, the last one running fastest, which is Slurm's order. Expanding writes one name at
 * a time into a buffer and compares it; nothing is kept.
 */
#include "daemon/stagingd/nodelist.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"

#define NAME_SIZE 256

struct search {
	const char *node;
	uint32_t count;
	uint32_t index;
	bool found;
	char name[NAME_SIZE];
};

static int expand(struct search *s, const char *p, size_t n, size_t len);

static int append(struct search *s, size_t len, const char *text, size_t n)
{
	if (len + n >= NAME_SIZE)
		return -EINVAL;
	memcpy(s->name + len, text, n);
	s->name[len + n] = '\0';
	return 0;
}

/* Parses text[0..n), all of which must be a number. */
static int read_number(const char *text, size_t n, uint32_t *valuep)
{
	char digits[16];

	if (n == 0 || n >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return parse_uint32(digits, valuep);
}

/* Expands "7" or "007-012"; the length of the first number is the minimum width. rest: the text
 * after the bracket. */
static int expand_range(struct search *s, const char *range, size_t n, const char *rest,
			size_t n_rest, size_t len)
{
	const char *dash = memchr(range, '-', n);
	size_t width = dash ? (size_t)(dash - range) : n;
	uint32_t from, to;
	char digits[16];
	int r;

	if (read_number(range, width, &from) < 0)
		return -EINVAL;
	to = from;
	if (dash && read_number(dash + 1, n - width - 1, &to) < 0)
		return -EINVAL;
	if (to < from || to - from >= NODELIST_MAX)
		return -EINVAL;
	for (uint32_t i = from; i <= to; i++) {
		int k = snprintf(digits, sizeof(digits), "%0*u", (int)width, i);

		r = append(s, len, digits, (size_t)k);
		if (r == 0)
			r = expand(s, rest, n_rest, len + (size_t)k);
		if (r < 0)
			return r;
	}
	return 0;
}

static int expand_bracket(struct search *s, const char *p, size_t n, size_t len)
{
	const char *close = memchr(p, ']', n), *end = close, *q = p + 1;
	int r;

	if (!close)
		return -EINVAL;
	while (q <= end) {
		const char *comma = memchr(q, ',', (size_t)(end - q));
		const char *stop = comma ? comma : end;

		r = expand_range(s, q, (size_t)(stop - q), close + 1, n - (size_t)(close + 1 - p),
				 len);
		if (r < 0)
			return r;
		q = stop + 1;
	}
	return 0;
}

static int expand(struct search *s, const char *p, size_t n, size_t len)
{
	const char *open = memchr(p, '[', n);
	size_t plain = open ? (size_t)(open - p) : n;
	int r = append(s, len, p, plain);

	if (r < 0)
		return r;
	if (open)
		return expand_bracket(s, open, n - plain, len + plain);
	if (!s->found && !strcmp(s->name, s->node)) {
		s->found = true;
		s->index = s->count;
	}
	return ++s->count > NODELIST_MAX ? -EINVAL : 0;
}

/* Returns the length of the first item, which ends at a comma outside of brackets. */
static size_t item_length(const char *p)
{
	bool inside = false;
	size_t n = 0;

	for (; p[n] && (inside || p[n] != ','); n++) {
		if (p[n] == '[')
			inside = true;
		else if (p[n] == ']')
			inside = false;
	}
	return n;
}

int nodelist_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp)
{
	struct search s = { .node = node };
	int r;

	while (*list) {
		size_t n = item_length(list);

		if (n == 0)
			return -EINVAL;
		s.name[0] = '\0';
		r = expand(&s, list, n, 0);
		if (r < 0)
			return r;
		list += n;
		if (*list == ',')
			list++;
	}
	if (!s.found)
		return -ENOENT;
	*indexp = s.index;
	*n_nodesp = s.count;
	return 0;
}
