#include "daemon/worker/s3-list.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"

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

/* &amp; and its four brothers. */
static bool read_entity(const char **pp, const char *end, char *cp)
{
	static const struct { const char *name; char c; } known[] = {
		{ "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' },
		{ "&apos;", '\'' }, { "&#34;", '"' }, { "&#39;", '\'' },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t n = strlen(known[i].name);

		if ((size_t)(end - *pp) >= n && !memcmp(*pp, known[i].name, n)) {
			*cp = known[i].c;
			*pp += n;
			return true;
		}
	}
	return false;
}

static bool copy_text(const char *p, const char *end, char *buf, size_t size)
{
	size_t n = 0;
	char c;

	while (p < end) {
		c = *p;
		if (c == '&' ? !read_entity(&p, end, &c) : (p++, c == '\0'))
			return false;
		if (n + 1 >= size)
			return false;
		buf[n++] = c;
	}
	buf[n] = '\0';
	return true;
}

/* ---- elements ---- */

/* The next tag: its name with a "/" in front at its end; what is before it begins at *textp. */
static bool next_tag(struct xml *x, const char **textp, char name[static 64])
{
	const char *open, *close;
	size_t n;

	*textp = x->p;
	open = memchr(x->p, '<', (size_t)(x->end - x->p));
	close = open ? memchr(open, '>', (size_t)(x->end - open)) : NULL;
	if (!open)
		return false;
	x->bad = !close || open[1] == '!'; /* types, comments, sections */
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

static bool read_field(struct s3_object *o, struct s3_page *page, bool inside, const char *name,
		       const char *p, const char *end)
{
	char text[64];

	if (inside && !strcmp(name, "Key"))
		return copy_text(p, end, o->key, sizeof(o->key)) && s3_url_decode(o->key);
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
	return error_set(err, EBADMSG, "the listing can't be read");
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

	*page = (struct s3_page){ 0 };
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
		} else if (name[0] == '/' && !strcmp(name + 1, last)) { /* a leaf */
			if (!read_field(&o, page, inside, last, text,
					memchr(text, '<', (size_t)(x.end - text))))
				return refuse(err);
		}
		memcpy(last, name, sizeof(last));
	}
	return x.bad || !begun || !ended || inside ? refuse(err) : 0;
}
