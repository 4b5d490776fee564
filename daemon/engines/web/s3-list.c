#include "daemon/engines/web/s3-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/parse.h"

struct xml {
	const char *p, *end;
	bool bad;
};

/* ---- texts ---- */

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) % 16 : -1;
}

bool s3_url_decode(char *text)
{
	char *out = text;

	for (; *text; text++, out++) {
		*out = *text == '+' ? ' ' : *text;
		if (*text != '%')
			continue;
		if (hex_digit(text[1]) < 0 || hex_digit(text[2]) < 0)
			return false;
		*out = (char)(hex_digit(text[1]) << 4 | hex_digit(text[2]));
		if (!*out)
			return false;
		text += 2;
	}
	*out = '\0';
	return true;
}

/* Writes a character as UTF-8. Returns its size; 0: no character has this number. */
static size_t put_character(unsigned long n, char out[static 4])
{
	if (n == 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000))
		return 0;
	if (n < 0x80) {
		out[0] = (char)n;
		return 1;
	}
	if (n < 0x800) {
		out[0] = (char)(0xc0 | n >> 6);
		out[1] = (char)(0x80 | (n & 0x3f));
		return 2;
	}
	if (n < 0x10000) {
		out[0] = (char)(0xe0 | n >> 12);
		out[1] = (char)(0x80 | (n >> 6 & 0x3f));
		out[2] = (char)(0x80 | (n & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | n >> 18);
	out[1] = (char)(0x80 | (n >> 12 & 0x3f));
	out[2] = (char)(0x80 | (n >> 6 & 0x3f));
	out[3] = (char)(0x80 | (n & 0x3f));
	return 4;
}

/* Reads a character by its number: &#39; or &#x27;. name: the text between "&#" and ";". */
static size_t read_number(const char *name, char out[static 4])
{
	int base = *name == 'x' ? 16 : 10;
	const char *digits = name + (base == 16);
	unsigned long n;
	char *end;

	if (!*digits ||
	    strspn(digits, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits))
		return 0;
	n = strtoul(digits, &end, base);
	return *end ? 0 : put_character(n, out);
}

/* Reads &amp; or one of the four other names, or a character by its number. Returns the size of the
 * result. */
static size_t read_entity(const char **pp, const char *end, char out[static 4])
{
	static const struct {
		const char *name;
		char c;
	} known[] = {
		{ "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' },
	};
	const char *stop = memchr(*pp, ';', (size_t)(end - *pp) < 12 ? (size_t)(end - *pp) : 12);
	size_t n = stop ? (size_t)(stop - *pp) - 1 : 0;
	char name[12];

	if (n == 0)
		return 0;
	memcpy(name, *pp + 1, n);
	name[n] = '\0';
	*pp = stop + 1;
	if (name[0] == '#')
		return read_number(name + 1, out);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(name, known[i].name)) {
			out[0] = known[i].c;
			return 1;
		}
	return 0;
}

static bool copy_text(const char *p, const char *end, char *buf, size_t size)
{
	size_t n = 0, k;
	char c[4];

	while (p < end) {
		k = 1;
		c[0] = *p;
		if (*p == '&')
			k = read_entity(&p, end, c);
		else
			p++;
		if (k == 0 || c[0] == '\0' || n + k >= size)
			return false;
		memcpy(buf + n, c, k);
		n += k;
	}
	buf[n] = '\0';
	return true;
}

/* ---- elements ---- */

/* Finds the next tag: its name, and the text before it, which begins at *textp. The name of an end
 * tag begins with "/". */
static bool next_tag(struct xml *x, const char **textp, char name[static 64])
{
	const char *open, *close;
	size_t n;

	*textp = x->p;
	open = memchr(x->p, '<', (size_t)(x->end - x->p));
	close = open ? memchr(open, '>', (size_t)(x->end - open)) : NULL;
	if (!open)
		return false;
	x->bad = !close || open[1] == '!'; /* declarations of types, comments, CDATA sections */
	if (x->bad)
		return false;
	x->p = close + 1;
	n = 0;
	while (open + 1 + n < close && !strchr(" \t\r\n", open[1 + n]))
		n++;
	if (n == 0 || n >= 64) {
		x->bad = true;
		return false;
	}
	memcpy(name, open + 1, n);
	name[n] = '\0';
	if (close[-1] == '/' && name[n - 1] == '/')
		name[n - 1] = '\0';
	return true;
}

bool s3_xml_get(const char *data, size_t size, const char *name, char *buf, size_t buf_size)
{
	struct xml x = { data, data + size, false };
	char tag[64], last[64] = "";
	const char *text;

	while (next_tag(&x, &text, tag)) {
		if (tag[0] == '/' && !strcmp(tag + 1, name) && !strcmp(last, name))
			return copy_text(text, memchr(text, '<', (size_t)(x.end - text)), buf,
					 buf_size);
		memcpy(last, tag, sizeof(last));
	}
	return false;
}

/* Reads a key. In its encoded form, it may be three times as long. */
static bool read_key(struct s3_object *o, const struct s3_page *page, const char *p,
		     const char *end)
{
	char text[3 * S3_KEY_SIZE];

	if (!copy_text(p, end, text, sizeof(text)) || (page->encoded && !s3_url_decode(text)) ||
	    strlen(text) >= sizeof(o->key))
		return false;
	strcpy(o->key, text);
	return true;
}

static bool read_field(struct s3_object *o, struct s3_page *page, bool inside, const char *name,
		       const char *p, const char *end)
{
	char text[64];

	if (inside && !strcmp(name, "Key"))
		return read_key(o, page, p, end);
	if (inside && !strcmp(name, "Size"))
		return copy_text(p, end, text, sizeof(text)) && parse_uint64(text, &o->size) == 0;
	if (inside && !strcmp(name, "ETag"))
		return copy_text(p, end, o->etag, sizeof(o->etag));
	if (!inside && !strcmp(name, "IsTruncated")) {
		page->truncated = end - p == 4 && !memcmp(p, "true", 4);
		return true;
	}
	if (!inside && !strcmp(name, "NextContinuationToken"))
		return copy_text(p, end, page->token, sizeof(page->token));
	return true;
}

static int refuse(struct error *err)
{
	error_set(err, EBADMSG, "the server's listing can't be read");
	return error_set_hint(err, -EBADMSG, "tell the administrator of the server");
}

/* Returns true if the page says that its keys are encoded. Servers that do not support this send
 * plain keys and do not say so. */
static bool is_encoded(const char *data, size_t size)
{
	char how[8];

	return s3_xml_get(data, size, "EncodingType", how, sizeof(how)) && !strcmp(how, "url");
}

int s3_list_read(const char *data, size_t size, struct s3_page *page,
		 int (*take)(void *arg, const struct s3_object *o, struct error *err), void *arg,
		 struct error *err)
{
	struct xml x = { data, data + size, size > S3_LIST_MAX_SIZE };
	bool inside = false, begun = false, ended = false;
	char name[64], last[64] = "";
	struct s3_object o = { .size = UINT64_MAX };
	const char *text;
	int r;

	*page = (struct s3_page){ .encoded = is_encoded(data, size) };
	while (!x.bad && next_tag(&x, &text, name)) {
		if (!strcmp(name, "ListBucketResult"))
			begun = true;
		if (!strcmp(name, "/ListBucketResult"))
			ended = begun;
		if (!strcmp(name, "Contents")) {
			inside = true;
			o = (struct s3_object){ .size = UINT64_MAX };
		} else if (!strcmp(name, "/Contents")) {
			if (!inside || !o.key[0] || o.size == UINT64_MAX)
				return refuse(err);
			inside = false;
			r = take(arg, &o, err);
			if (r != 0)
				return r;
			/* the end of an element without children */
		} else if (name[0] == '/' && !strcmp(name + 1, last)) {
			if (!read_field(&o, page, inside, last, text,
					memchr(text, '<', (size_t)(x.end - text))))
				return refuse(err);
		}
		memcpy(last, name, sizeof(last));
	}
	return x.bad || !begun || !ended || inside ? refuse(err) : 0;
}
