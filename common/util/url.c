#include "common/util/url.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

static const struct {
	const char *prefix;
	enum url_scheme scheme;
	unsigned port;
} schemes[] = {
	{ "http", URL_HTTP, 80 },
	{ "https", URL_HTTPS, 443 },
	{ "s3", URL_S3, 0 },
};

#define N_SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

enum url_scheme url_scheme_of(const char *text)
{
	for (size_t i = 0; i < N_SCHEMES; i++)
		if (strutil_begin(text, schemes[i].prefix) &&
		    !strncmp(text + strlen(schemes[i].prefix), "://", 3))
			return schemes[i].scheme;
	return URL_NONE;
}

static int refuse(struct error *err, const char *text)
{
	return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s", text);
}

static int parse_port(struct url *url, const char *p, const char *end, struct error *err)
{
	unsigned port = 0;

	for (; p < end && port <= 65535; p++) {
		if (!strutil_is_digit(*p))
			return refuse(err,
				      "the port is not a number; write https://HOST:PORT/PATH");
		port = port * 10 + (unsigned)(*p - '0');
	}
	if (port == 0 || port > 65535)
		return refuse(err,
			      "the port is not between 1 and 65535; leave it out with its colon "
			      "or fix it");
	url->port = port;
	return 0;
}

static bool is_host_byte(char c, bool v6)
{
	if (v6)
		return strutil_is_digit(c) || c == ':' || c == '.' || c == '%' ||
		       strutil_is_alpha(c);
	/* names that are not ASCII must be given in the resolver's form (xn--) */
	return strutil_is_digit(c) || strutil_is_alpha(c) || c == '-' || c == '.' || c == '_';
}

static int parse_host(struct url *url, const char *end, struct error *err)
{
	const char *p = url->host;
	bool v6 = *p == '[';
	const char *close = v6 ? memchr(p, ']', (size_t)(end - p)) : NULL;

	if (v6 && !close)
		return refuse(err, "the [ of the address has no ]; write http://[::1]:80/PATH");
	if (v6) {
		for (p++; p < close; p++)
			if (!is_host_byte(*p, true))
				return refuse(err, "the text between [ and ] is no IPv6 address; "
						   "fix it");
		p++;
	} else {
		while (p < end && is_host_byte(*p, false))
			p++;
	}
	if (url->scheme != URL_S3 && p < end && strchr("*?", *p))
		return refuse(err, "the host can't be a pattern; write https://HOST/PATH");
	url->n_host = (size_t)(p - url->host);
	if (url->n_host == 0 || (v6 && url->n_host < 4))
		return refuse(err, url->scheme == URL_S3
					   ? "the bucket is missing; write s3://BUCKET/KEY"
					   : "the host is missing; write https://HOST/PATH");
	if (p == end)
		return 0;
	if (*p == ':' && url->scheme != URL_S3)
		return parse_port(url, p + 1, end, err);
	return refuse(
		err,
		url->scheme == URL_S3
			? "the bucket has a byte that buckets can't have; write s3://BUCKET/KEY"
			: "the host has a byte that hosts can't have; write "
			  "https://HOST[:PORT]/PATH");
}

const char *url_find_path(const char *text)
{
	const char *p = strstr(text, "://");
	size_t n;

	if (!p)
		return NULL;
	p += 3;
	n = strcspn(p, "/?#");
	return p[n] == '/' ? p + n : NULL;
}

int url_parse(struct url *url, const char *text, struct error *err)
{
	struct url u = { .scheme = url_scheme_of(text) };
	const char *path, *end;

	if (u.scheme == URL_NONE)
		return refuse(err,
			      "is no address that is known; begin with http://, https:// or s3://");
	for (size_t i = 0; i < N_SCHEMES; i++)
		if (schemes[i].scheme == u.scheme)
			u.port = schemes[i].port;
	u.host = strstr(text, "://") + 3;
	path = url_find_path(text);
	end = path ? path : u.host + strcspn(u.host, "/?#");
	if (memchr(u.host, '@', (size_t)(end - u.host)))
		return refuse(err,
			      "a user or password in an address can be read by everybody on the "
			      "cluster; remove what is before the @");
	if (!path)
		return refuse(err, u.scheme == URL_S3 ? "names a bucket and nothing in it; write "
							"s3://BUCKET/KEY, s3://BUCKET/PREFIX/, "
							"or s3://BUCKET/ for all of it"
						      : "the address has no path; write "
							"https://HOST/PATH");
	u.path = path;
	if (u.scheme == URL_S3) {
		u.path++;
		u.n_path = strlen(u.path); /* 0: the whole bucket */
	} else {
		u.n_path = strcspn(u.path, "?#");
	}
	if (parse_host(&u, end, err) < 0)
		return -EINVAL;
	*url = u;
	return 0;
}

/* Returns the length of a "." at p, which may be written as "%2e"; 0: none. */
static size_t dot_length(const char *p, const char *end, bool percent)
{
	if (p < end && *p == '.')
		return 1;
	if (percent && end - p >= 3 && p[0] == '%' && p[1] == '2' && strutil_lower(p[2]) == 'e')
		return 3;
	return 0;
}

static bool is_border(char c)
{
	return c == '/' || c == '{' || c == '}' || c == ',';
}

bool url_climbs(const char *text, size_t n, bool percent)
{
	const char *end = text + n, *p, *q;
	size_t a, b;

	for (p = text; p < end; p++) {
		if (p > text && !is_border(p[-1]))
			continue;
		a = dot_length(p, end, percent);
		b = a ? dot_length(p + a, end, percent) : 0;
		q = p + a + b;
		if (b && (q == end || is_border(*q)))
			return true;
	}
	return false;
}

/* Writes "/" and the normal form of the path. s3 keys do not begin with "/". */
static int normal_path(const struct url *url, char *buf, size_t size)
{
	char path[PATH_MAX];
	int n;

	n = snprintf(path, sizeof(path), "/%.*s", (int)url->n_path, url->path);
	if (n < 0 || (size_t)n >= sizeof(path) || url_climbs(path, (size_t)n, true))
		return -EINVAL;
	return path_normalize(path, buf, size);
}

static int hex_digit(char c)
{
	if (strutil_is_digit(c))
		return c - '0';
	c = strutil_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns whether a server that first decodes "%2f" would see "..". */
static bool climbs_decoded(const struct url *url)
{
	char plain[PATH_MAX];
	size_t n = 0;

	for (size_t i = 0; i < url->n_path && n < sizeof(plain); i++) {
		const char *p = url->path + i;

		plain[n] = *p;
		if (*p == '%' && i + 2 < url->n_path && hex_digit(p[1]) >= 0 &&
		    hex_digit(p[2]) >= 0) {
			plain[n] = (char)(hex_digit(p[1]) << 4 | hex_digit(p[2]));
			i += 2;
		}
		if (plain[n] == '\\')
			plain[n] = '/';
		n++;
	}
	return n == sizeof(plain) || url_climbs(plain, n, true);
}

/* Compares keys byte by byte up to the pattern's first wildcard, because a key is a name and not a
 * path: "/pre/x" and "./pre/x" are not below "pre/", nor is "a//b/x" below "a/b/". */
static bool begins_alike(const struct url *rule, const struct url *url)
{
	return !strncmp(rule->path, url->path, path_get_top(rule->path));
}

bool url_match(const char *pattern, const char *address)
{
	char a[PATH_MAX], b[PATH_MAX];
	struct url rule, url;

	if (url_parse(&rule, pattern, NULL) < 0 || url_parse(&url, address, NULL) < 0)
		return false;
	if (rule.scheme != url.scheme || rule.port != url.port || rule.n_host != url.n_host)
		return false;
	for (size_t i = 0; i < url.n_host; i++)
		if (strutil_lower(rule.host[i]) != strutil_lower(url.host[i]))
			return false;
	if (url.scheme == URL_S3 ? !begins_alike(&rule, &url) : climbs_decoded(&url))
		return false;
	return normal_path(&rule, a, sizeof(a)) == 0 && normal_path(&url, b, sizeof(b)) == 0 &&
	       path_match(a, b);
}
