#include "client/json-read.h"

#include <stdlib.h>
#include <string.h>

static bool json_reader_fail(struct json_reader *r)
{
	r->failed = true;
	return false;
}

static void skip_blanks(struct json_reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

/* Returns the next character that is not a blank, without reading it; '\0' at the end or after a
 * failure. */
static char peek(struct json_reader *r)
{
	skip_blanks(r);
	return r->failed || r->p == r->end ? '\0' : *r->p;
}

static bool take(struct json_reader *r, char c)
{
	if (peek(r) != c || !c)
		return false;
	r->p++;
	return true;
}

void json_read_init(struct json_reader *r, const char *text, size_t size)
{
	*r = (struct json_reader){ .p = text, .end = text + size };
}

/* Opens the container at the first call; skips the comma at later calls. */
static bool step(struct json_reader *r, bool *firstp, char open, char close)
{
	bool first = *firstp;

	*firstp = false;
	if (first && (!take(r, open) || ++r->depth > JSON_READ_MAX_DEPTH))
		return json_reader_fail(r);
	if (take(r, close)) {
		r->depth--;
		return false;
	}
	return first || take(r, ',') ? !r->failed : json_reader_fail(r);
}

bool json_read_element(struct json_reader *r, bool *firstp)
{
	return step(r, firstp, '[', ']');
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the four digits after \u. */
static bool read_code(struct json_reader *r, unsigned *codep)
{
	*codep = 0;
	if (r->end - r->p < 4)
		return json_reader_fail(r);
	for (unsigned i = 0; i < 4; i++) {
		int digit = hex_value(*r->p++);

		if (digit < 0)
			return json_reader_fail(r);
		*codep = *codep << 4 | (unsigned)digit;
	}
	return true;
}

static char *put_utf8(char *to, unsigned code)
{
	if (code < 0x80) {
		*to++ = (char)code;
	} else if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
		*to++ = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		*to++ = (char)(0xe0 | code >> 12);
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
		*to++ = (char)(0x80 | (code & 0x3f));
	} else {
		*to++ = (char)(0xf0 | code >> 18);
		*to++ = (char)(0x80 | (code >> 12 & 0x3f));
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
		*to++ = (char)(0x80 | (code & 0x3f));
	}
	return to;
}

/* Reads the rest of a \u sequence. Writes at most four bytes for at least six characters of text.
 * Returns NULL if it is malformed. */
static char *read_unicode(struct json_reader *r, char *to)
{
	unsigned code, low;

	if (!read_code(r, &code))
		return NULL;
	if (code >= 0xdc80 && code <= 0xdcff) {
		*to++ = (char)(code & 0xff);
		return to;
	}
	if (code >= 0xd800 && code < 0xdc00) {
		if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
			return NULL;
		r->p += 2;
		if (!read_code(r, &low) || low < 0xdc00 || low > 0xdfff)
			return NULL;
		code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
	} else if (code == 0 || (code >= 0xdc00 && code <= 0xdfff)) {
		return NULL;
	}
	return put_utf8(to, code);
}

/* Reads the rest of an escape sequence. Returns NULL if it is malformed. */
static char *read_escape(struct json_reader *r, char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *at;
	char c;

	if (r->p == r->end)
		return NULL;
	c = *r->p++;
	if (c == 'u')
		return read_unicode(r, to);
	at = c ? strchr(from, c) : NULL;
	if (!at)
		return NULL;
	*to++ = into[at - from];
	return to;
}

bool json_read_text(struct json_reader *r, char **textp)
{
	const char *end;
	char *text, *to;

	if (!take(r, '"'))
		return json_reader_fail(r);
	for (end = r->p; end < r->end && *end != '"'; end++)
		end += *end == '\\';
	if (end >= r->end)
		return json_reader_fail(r);
	text = to = malloc((size_t)(end - r->p) + 1); /* the decoded text is never longer */
	while (to && r->p < end) {
		unsigned char c = (unsigned char)*r->p++;

		if (c == '\\')
			to = read_escape(r, to);
		else if (c < ' ')
			to = NULL;
		else
			*to++ = (char)c;
	}
	if (!to || r->failed) {
		free(text);
		return json_reader_fail(r);
	}
	*to = '\0';
	r->p++;
	*textp = text;
	return true;
}

bool json_read_member(struct json_reader *r, bool *firstp, char *key, size_t size)
{
	char *text;

	if (!step(r, firstp, '{', '}') || !json_read_text(r, &text))
		return false;
	key[0] = '\0';
	if (strlen(text) < size)
		strcpy(key, text);
	free(text);
	return take(r, ':') ? true : json_reader_fail(r);
}

bool json_read_u64(struct json_reader *r, uint64_t *valuep)
{
	const char *begin;
	uint64_t value = 0;

	skip_blanks(r);
	for (begin = r->p; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *r->p - '0', &value))
			return json_reader_fail(r);
	if (r->failed || r->p == begin || (*begin == '0' && r->p - begin > 1) ||
	    (r->p < r->end && strchr(".eE", *r->p)))
		return json_reader_fail(r);
	*valuep = value;
	return true;
}

static bool take_word(struct json_reader *r, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(r);
	if (r->failed || (size_t)(r->end - r->p) < n || memcmp(r->p, word, n))
		return false;
	r->p += n;
	return true;
}

bool json_read_null(struct json_reader *r)
{
	return take_word(r, "null");
}

/* Skips a number without a full check of its syntax. */
static bool skip_number(struct json_reader *r)
{
	const char *begin = r->p;

	while (r->p < r->end && *r->p && strchr("+-.0123456789eE", *r->p))
		r->p++;
	return r->p > begin ? true : json_reader_fail(r);
}

bool json_skip(struct json_reader *r)
{
	bool first = true;
	char key[1], *text;

	switch (peek(r)) {
	case '{':
		while (json_read_member(r, &first, key, sizeof(key)))
			json_skip(r);
		return !r->failed;
	case '[':
		while (json_read_element(r, &first))
			json_skip(r);
		return !r->failed;
	case '"':
		if (!json_read_text(r, &text))
			return false;
		free(text);
		return true;
	case '\0':
		return json_reader_fail(r);
	default:
		return take_word(r, "null") || take_word(r, "true") || take_word(r, "false") ||
		       skip_number(r);
	}
}

bool json_read_end(struct json_reader *r)
{
	return peek(r) == '\0' && !r->failed && r->p == r->end;
}
