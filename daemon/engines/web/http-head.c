#include "daemon/engines/web/http-head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/util/parse.h"
#include "common/util/suffix.h"

/* Copies value[0..n) without the blanks around it. Returns false if it was too long and was cut. */
static bool copy_value(char *buf, size_t size, const char *value, size_t n)
{
	size_t m = n < size ? n : size - 1;

	memcpy(buf, value, m);
	buf[m] = '\0';
	return n < size;
}

static void read_status(struct http_head *h, const char *line, size_t n)
{
	size_t all = h->size;
	const char *p = memchr(line, ' ', n), *end = line + n;
	int status = 0;

	*h = (struct http_head){ .size = all, .range_total = UINT64_MAX };
	while (p && p < end && *p == ' ')
		p++;
	while (p && p < end && *p >= '0' && *p <= '9' && status < 1000)
		status = status * 10 + (*p++ - '0');
	h->status = status;
	while (p && p < end && *p == ' ')
		p++;
	if (p)
		copy_value(h->reason, sizeof(h->reason), p, (size_t)(end - p));
}

static bool read_number(const char **pp, uint64_t *valuep)
{
	char text[24];
	size_t n = strspn(*pp, "0123456789");

	if (n == 0 || n >= sizeof(text))
		return false;
	memcpy(text, *pp, n);
	text[n] = '\0';
	*pp += n;
	return parse_uint64(text, valuep) == 0;
}

/* Parses "bytes 0-99/1234"; "*" may stand for the size or for the range. */
static bool read_range(struct http_head *h, const char *p)
{
	uint64_t last;

	if (strncasecmp(p, "bytes ", 6))
		return false;
	p += 6;
	if (*p == '*') {
		p++;
	} else {
		if (!read_number(&p, &h->range_from) || *p++ != '-' || !read_number(&p, &last) ||
		    last < h->range_from || last == UINT64_MAX)
			return false;
		h->range_end = last + 1;
	}
	if (*p++ != '/')
		return false;
	if (!strcmp(p, "*"))
		return true;
	return read_number(&p, &h->range_total) && !*p && h->range_end <= h->range_total;
}

static void read_length(struct http_head *h, const char *value)
{
	h->n_lengths++;
	if (parse_uint64(value, &h->length) < 0)
		h->length_bad = true;
}

/* Parses `attachment; filename="x.zip"`. An encoded name (filename*=) may end in the same way. */
static void read_disposition(struct http_head *h, const char *value, size_t n)
{
	char text[HTTP_NAME_SIZE + 128];
	const char *p;
	size_t size;

	copy_value(text, sizeof(text), value, n);
	p = strcasestr(text, "filename=");
	if (!p)
		p = strcasestr(text, "filename*=");
	if (!p)
		return;
	p = strchr(p, '=') + 1;
	if (*p == '"')
		size = strcspn(++p, "\"");
	else
		size = strcspn(p, "; \t");
	copy_value(h->name, sizeof(h->name), p, size);
}

static void read_field(struct http_head *h, const char *name, const char *value, size_t n)
{
	char text[128];

	copy_value(text, sizeof(text), value, n);
	if (!strcasecmp(name, "content-length")) {
		read_length(h, text);
	} else if (!strcasecmp(name, "transfer-encoding")) {
		h->chunked = n >= 7 && !strncasecmp(value + n - 7, "chunked", 7);
	} else if (!strcasecmp(name, "content-range")) {
		h->range_bad = h->range_bad || h->has_range || !read_range(h, text);
		h->has_range = true;
	} else if (!strcasecmp(name, "etag")) {
		if (!copy_value(h->validator.etag, sizeof(h->validator.etag), value, n))
			h->validator.etag[0] = '\0';
	} else if (!strcasecmp(name, "last-modified")) {
		if (!copy_value(h->validator.modified, sizeof(h->validator.modified), value, n))
			h->validator.modified[0] = '\0';
	} else if (!strcasecmp(name, "location")) {
		h->location_bad = !copy_value(h->location, sizeof(h->location), value, n);
	} else if (!strcasecmp(name, "retry-after")) {
		copy_value(h->retry_after, sizeof(h->retry_after), value, n);
	} else if (!strcasecmp(name, "content-encoding")) {
		copy_value(h->encoding, sizeof(h->encoding), value, n);
	} else if (!strcasecmp(name, "content-disposition")) {
		read_disposition(h, value, n);
	}
}

int http_head_add(struct http_head *h, const char *line, size_t size)
{
	const char *colon;
	char name[32];
	size_t n = size;

	h->size += size;
	if (h->size > HTTP_HEAD_MAX_SIZE)
		return -E2BIG;
	while (n > 0 && strchr("\r\n\t ", line[n - 1]))
		n--;
	if (n >= 5 && !memcmp(line, "HTTP/", 5)) {
		read_status(h, line, n);
		return 0;
	}
	colon = memchr(line, ':', n);
	if (!colon || !copy_value(name, sizeof(name), line, (size_t)(colon - line)))
		return 0;
	n -= (size_t)(colon - line) + 1;
	for (colon++; n > 0 && (*colon == ' ' || *colon == '\t'); n--)
		colon++;
	read_field(h, name, colon, n);
	return 0;
}

/* Returns the length of an ETag without its quotes, which begins at *textp. */
static size_t strip_quotes(const char **textp)
{
	size_t n = strlen(*textp);
	bool quoted = n >= 2 && (*textp)[0] == '"' && (*textp)[n - 1] == '"';

	*textp += quoted;
	return quoted ? n - 2 : n;
}

/* Some servers of S3 quote the ETag in their answers and not in their listings. */
static bool is_same_etag(const char *a, const char *b)
{
	size_t n_a = strip_quotes(&a), n_b = strip_quotes(&b);

	return n_a == n_b && !memcmp(a, b, n_a);
}

bool http_validator_is_same(const struct http_validator *a, const struct http_validator *b)
{
	if (a->etag[0] || b->etag[0])
		return is_same_etag(a->etag, b->etag);
	return !strcmp(a->modified, b->modified);
}

/* Returns true if the text may be sent in a request. Some servers accept a single CR as the end of
 * a line. */
static bool is_plain(const char *text)
{
	while ((unsigned char)*text >= ' ' && *text != 0x7f)
		text++;
	return !*text;
}

const char *http_validator_for_range(const struct http_validator *v)
{
	if (v->etag[0] == '"' && is_plain(v->etag))
		return v->etag;
	return v->modified[0] && is_plain(v->modified) ? v->modified : NULL;
}

/* Returns true if the list has an encoding of HTTP. Other words are mistakes, such as "utf-8" for
 * the character set, or describe how an object was sent to S3 ("aws-chunked", which some servers
 * store and send again). */
static bool names_encoding(const char *list)
{
	static const char *const known[] = { "gzip",	   "x-gzip", "deflate",	  "compress",
					     "x-compress", "br",     "zstd",	  "dcb",
					     "dcz",	   "exi",    "aes128gcm", "pack200-gzip" };
	size_t n;

	for (; *list; list += n) {
		n = strcspn(list, ", \t");
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			if (n == strlen(known[i]) && !strncasecmp(list, known[i], n))
				return true;
		n += strspn(list + n, ", \t");
	}
	return false;
}

bool http_head_may_be_encoded(const struct http_head *h, const char *url)
{
	const struct suffix *s = suffix_find(url, strcspn(url, "?#"));

	return !names_encoding(h->encoding) || (s && s->compressed);
}

time_t http_date_read(const char *text)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm = { 0 };
	char month[4];
	const char *at;

	if (sscanf(text, "%*3s, %d %3s %d %d:%d:%d GMT", &tm.tm_mday, month, &tm.tm_year,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	at = strstr(months, month);
	if (!at || (at - months) % 3 || tm.tm_year < 1970 || tm.tm_year > 9999)
		return 0;
	tm.tm_mon = (int)(at - months) / 3;
	tm.tm_year -= 1900;
	return timegm(&tm);
}
