#include "client/json.h"

#include <assert.h>
#include <string.h>

#include "common/util/escape.h"

void json_init(struct json *j, FILE *f)
{
	*j = (struct json){ .f = f };
}

/* Returns the length of the valid UTF-8 sequence at s; 0: none. s ends with a NUL, which stops the
 * check. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n, i;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* Decodes a sequence of one to three bytes. */
static unsigned get_code(const unsigned char *s, size_t n)
{
	if (n < 3)
		return n == 1 ? s[0] : (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	return (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

static void put_quoted(FILE *f, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n;

	fputc('"', f);
	for (; *s; s += n) {
		n = utf8_length(s);
		if (n == 0) {
			fprintf(f, "\\udc%02x", s[0]);
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			fprintf(f, "\\%c", s[0]);
		} else if (*s == '\n') {
			fputs("\\n", f);
		} else if (*s == '\t') {
			fputs("\\t", f);
		} else if (!text_is_clean(s, n, NULL)) {
			fprintf(f, "\\u%04x", get_code(s, n)); /* a control character for
							        * terminals */
		} else {
			fwrite(s, 1, n, f);
		}
	}
	fputc('"', f);
}

static void put_key(struct json *j, const char *key)
{
	if (j->depth > 0 && j->filled[j->depth])
		fputc(',', j->f);
	j->filled[j->depth] = true;
	if (key) {
		put_quoted(j->f, key);
		fputc(':', j->f);
	}
}

static void open_container(struct json *j, const char *key, char c)
{
	assert(j->depth < JSON_MAX_DEPTH);
	put_key(j, key);
	fputc(c, j->f);
	j->filled[++j->depth] = false;
}

static void close_container(struct json *j, char c)
{
	assert(j->depth > 0);
	j->depth--;
	fputc(c, j->f);
}

void json_open_object(struct json *j, const char *key)
{
	open_container(j, key, '{');
}

void json_close_object(struct json *j)
{
	close_container(j, '}');
}

void json_open_array(struct json *j, const char *key)
{
	open_container(j, key, '[');
}

void json_close_array(struct json *j)
{
	close_container(j, ']');
}

void json_put_text(struct json *j, const char *key, const char *value)
{
	if (!value) {
		json_put_null(j, key);
		return;
	}
	put_key(j, key);
	put_quoted(j->f, value);
}

void json_put_u64(struct json *j, const char *key, uint64_t value)
{
	put_key(j, key);
	fprintf(j->f, "%llu", (unsigned long long)value);
}

void json_put_bool(struct json *j, const char *key, bool value)
{
	put_key(j, key);
	fputs(value ? "true" : "false", j->f);
}

void json_put_null(struct json *j, const char *key)
{
	put_key(j, key);
	fputs("null", j->f);
}

void json_put_known(struct json *j, const char *key, uint64_t value)
{
	if (value)
		json_put_u64(j, key, value);
	else
		json_put_null(j, key);
}
