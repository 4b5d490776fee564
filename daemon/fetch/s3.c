#include "daemon/fetch/s3.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/util/error.h"
#include "common/util/url.h"
#include "daemon/engines/web/web.h"

static const char *get_region(const struct web *web)
{
	return *web->region ? web->region : "us-east-1";
}

int s3_get_address(const struct web *web, const char *url, const char *query, char *buf,
		   size_t size, struct error *err)
{
	char key[S3_MAX_URL / 2], amazon[256];
	const char *endpoint = web->endpoint;
	struct url parts;
	int n;

	if (url_parse(&parts, url, err) < 0)
		return -EINVAL;
	if (!*endpoint) {
		snprintf(amazon, sizeof(amazon), "https://s3.%s.amazonaws.com", get_region(web));
		endpoint = amazon;
	}
	if (s3_encode(query ? "" : parts.path, 1, key, sizeof(key)) < 0)
		return error_set(err, ENAMETOOLONG, "the key is too long");
	n = snprintf(buf, size, "%s/%.*s%s%s%s%s", endpoint, (int)parts.n_host, parts.host,
		     query ? "" : "/", key, query ? "?" : "", query ? query : "");
	return n < 0 || (size_t)n >= size ? error_set(err, ENAMETOOLONG, "the key is too long") : 0;
}

/* ---- a request ---- */

int s3_make_headers(const struct web *web, const struct keys *keys, const char *address,
		    const char *range, int (*add)(void *arg, const char *name, const char *value),
		    void *arg)
{
	char host[300], path[S3_MAX_URL], date[17], authorization[S3_SIGN_MAX];
	struct s3_sign s = { .keys = keys,
			     .region = get_region(web),
			     .host = host,
			     .path = path,
			     .range = range,
			     .now = time(NULL) };
	struct url url;
	int r;

	if (url_parse(&url, address, NULL) < 0 || url.n_path >= sizeof(path) || url.n_host > 256)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)url.n_host, url.host);
	if (url.port != (url.scheme == URL_HTTPS ? 443 : 80))
		snprintf(host + url.n_host, sizeof(host) - url.n_host, ":%u", url.port);
	snprintf(path, sizeof(path), "%.*s", (int)url.n_path, url.path);
	s.query = url.path[url.n_path] == '?' ? url.path + url.n_path + 1 : "";
	r = s3_sign(&s, date, authorization, sizeof(authorization));
	if (r == 0)
		r = add(arg, "x-amz-content-sha256", S3_EMPTY_SHA256);
	if (r == 0)
		r = add(arg, "x-amz-date", date);
	if (r == 0 && keys->token[0])
		r = add(arg, "x-amz-security-token", keys->token);
	return r < 0 ? r : add(arg, "Authorization", authorization);
}
