/*
 * The texts in an item: which bytes are encoded, which part of a text a message shows, and the
 * words that DEST may be. Commas inside {} separate the alternatives of a pattern and stay as they
 * are; all others, and ":", "+" and "%", are encoded.
 */
#include "common/dataset/dataset-internal.h"

#include <string.h>

#include "common/util/strutil.h"

static const char *const dests[] = { "auto", "shm", "ssd", "scratch", "source", NULL };

/* SEPARATOR: encoded in all texts; PATTERN: also in sources; VARIABLE: also in sources whose
 * variables are not expanded yet. */
enum code_kind { CODE_SEPARATOR, CODE_PATTERN, CODE_VARIABLE, N_CODE_KINDS };

static const struct {
	char byte;
	char code[4];
	enum code_kind kind;
} codes[] = {
	{ ',', "%2C", CODE_SEPARATOR }, { ':', "%3A", CODE_SEPARATOR },
	{ '+', "%2B", CODE_SEPARATOR }, { '%', "%25", CODE_SEPARATOR },
	{ '*', "%2A", CODE_PATTERN },	{ '?', "%3F", CODE_PATTERN },
	{ '[', "%5B", CODE_PATTERN },	{ ']', "%5D", CODE_PATTERN },
	{ '{', "%7B", CODE_PATTERN },	{ '}', "%7D", CODE_PATTERN },
	{ '$', "%24", CODE_VARIABLE },
};

#define N_CODES (sizeof(codes) / sizeof(codes[0]))

/* Returns the index of the code at the beginning of text, of the kinds up to last; N_CODES:
 * none. */
static size_t find_code(const char *text, enum code_kind last)
{
	size_t i;

	for (i = 0; i < N_CODES; i++)
		if (codes[i].kind <= last && !strncasecmp(text, codes[i].code, 3))
			break;
	return i;
}

/* Decodes text in place. met[kind] is set for each kind that was decoded. */
static void decode(char *text, enum code_kind last, bool met[static N_CODE_KINDS])
{
	char *out = text;

	while (*text) {
		size_t i = find_code(text, last);

		if (i < N_CODES) {
			*out++ = codes[i].byte;
			met[codes[i].kind] = true;
			text += 3;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

char dataset_code_to_byte(const char *text)
{
	size_t i = find_code(text, CODE_VARIABLE);

	return i < N_CODES ? codes[i].byte : '\0';
}

void dataset_decode(char *text)
{
	bool met[N_CODE_KINDS] = { 0 };

	decode(text, CODE_SEPARATOR, met);
}

void dataset_source_decode(char *source, struct dataset *d)
{
	bool met[N_CODE_KINDS] = { 0 };

	decode(source, CODE_VARIABLE, met);
	d->literal = met[CODE_PATTERN];
	d->expanded = met[CODE_VARIABLE];
}

static void encode(FILE *f, const char *text, const bool kinds[static N_CODE_KINDS])
{
	unsigned depth = 0;
	size_t i;

	for (; *text; text++) {
		if (*text == '{')
			depth++;
		else if (*text == '}' && depth > 0)
			depth--;
		for (i = 0; i < N_CODES && codes[i].byte != *text; i++)
			;
		if (i < N_CODES && kinds[codes[i].kind] &&
		    !(depth > 0 && *text == ',' && !kinds[CODE_PATTERN]))
			fputs(codes[i].code, f);
		else
			fputc(*text, f);
	}
}

void dataset_encode(FILE *f, const char *text)
{
	const bool kinds[N_CODE_KINDS] = { [CODE_SEPARATOR] = true };

	encode(f, text, kinds);
}

void dataset_source_encode(FILE *f, const struct dataset *d, const char *source)
{
	const bool kinds[N_CODE_KINDS] = {
		[CODE_SEPARATOR] = true,
		[CODE_PATTERN] = d->literal,
		[CODE_VARIABLE] = d->expanded,
	};

	encode(f, source, kinds);
}

bool dataset_braces_are_closed(const char *text)
{
	unsigned depth = 0;

	for (; *text; text++) {
		if (*text == '{')
			depth++;
		else if (*text == '}' && depth > 0)
			depth--;
	}
	return depth == 0;
}

char *dataset_show(const char *text, char *buf, size_t size)
{
	size_t n = strlen(text);
	const char *end = "", *query;

	query = strstr(text, "://");
	query = query ? strchr(query, '?') : NULL;
	if (query) {
		n = (size_t)(query - text) + 1;
		end = "...";
	}
	if (n + strlen(end) >= size) {
		n = size - 4;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--; /* not inside a UTF-8 character */
		end = "...";
	}
	snprintf(buf, size, "%.*s%s", (int)n, text, end);
	return buf;
}

bool dataset_dest_is_word(const char *text)
{
	for (size_t i = 0; dests[i]; i++)
		if (!strcmp(dests[i], text))
			return true;
	return false;
}

bool dataset_dest_is_word_of(const char *text, size_t n)
{
	for (size_t i = 0; dests[i]; i++)
		if (!strncmp(dests[i], text, n) && !dests[i][n])
			return true;
	return false;
}

const char *dataset_dest_nearest(const char *text)
{
	return strutil_nearest(text, dests);
}
