#include "daemon/worker/s3.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/url.h"
#include "daemon/worker/web.h"

#define MAX_CREDENTIALS (64 << 10)
#define KEYS_MEND "write ~/.aws/credentials with [default], aws_access_key_id and aws_secret_access_key"

bool s3_is_url(const char *url)
{
	return url_scheme_of(url) == URL_S3;
}

static const char *get_region(const struct web *web)
{
	return *web->region ? web->region : "us-east-1";
}

int s3_get_address(const struct web *web, const char *url, const char *query, char *buf, size_t size,
		   struct error *err)
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

/* ---- keys ---- */

static bool take_value(const char *line, const char *name, char *buf, size_t size, bool *badp)
{
	size_t n = strlen(name);
	const char *p;

	if (strncmp(line, name, n))
		return false;
	p = line + n + strspn(line + n, " \t");
	if (*p++ != '=')
		return false;
	p += strspn(p, " \t");
	n = strcspn(p, "\r\n");
	while (n > 0 && strchr(" \t", p[n - 1]))
		n--;
	*badp = *badp || n >= size;
	for (size_t i = 0; i < n; i++)
		*badp = *badp || (unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f;
	snprintf(buf, size, "%.*s", (int)n, p);
	return true;
}

int s3_keys_from_text(struct s3_keys *keys, const char *text, const char *what, struct error *err)
{
	bool inside = false, bad = false;
	const char *line, *p;

	*keys = (struct s3_keys){ 0 };
	for (line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		p = line + strspn(line, " \t");
		if (*p == '[')
			inside = !strncmp(p, "[default]", 9);
		if (!inside)
			continue;
		(void)(take_value(p, "aws_access_key_id", keys->access, sizeof(keys->access), &bad) ||
		       take_value(p, "aws_secret_access_key", keys->secret, sizeof(keys->secret),
				  &bad) ||
		       take_value(p, "aws_session_token", keys->token, sizeof(keys->token), &bad));
	}
	if (bad)
		error_set(err, EINVAL, "%s has a key with a byte that keys can't have", what);
	else if (!keys->access[0] || !keys->secret[0])
		error_set(err, EINVAL, "%s has no keys in its section [default]", what);
	else
		return 0;
	return error_mend(err, -EINVAL, KEYS_MEND);
}

static int refuse_file(const char *path, const struct stat *st, struct error *err)
{
	error_set(err, EACCES, "%s %s", path,
		  !S_ISREG(st->st_mode)	     ? "is no file"
		  : st->st_uid != geteuid() ? "belongs to somebody else"
					     : "can be read by others");
	return error_mend(err, -EACCES, "chmod 600 %s, and change the keys", path);
}

int s3_keys_read(struct s3_keys *keys, struct error *err)
{
	const struct passwd *pw = getpwuid(geteuid());
	_cleanup_(freep) char *text = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];
	struct stat st;
	size_t size;
	int r;

	snprintf(path, sizeof(path), "%s/.aws/credentials", pw ? pw->pw_dir : "");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		error_errno(err, errno, "keys for S3: %s", path);
		return error_mend(err, err->code, KEYS_MEND);
	}
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return refuse_file(path, &st, err);
	r = fd_read_file(fd, MAX_CREDENTIALS, &text, &size);
	if (r < 0)
		return error_errno(err, -r, "keys for S3: %s", path);
	r = s3_keys_from_text(keys, text, path, err);
	explicit_bzero(text, size);
	return r;
}

/* ---- a request ---- */

int s3_make_headers(const struct web *web, const struct s3_keys *keys, const char *address,
		    const char *range, int (*add)(void *arg, const char *name, const char *value),
		    void *arg)
{
	char host[300], path[S3_MAX_URL], date[17], authorization[S3_SIGN_MAX];
	struct s3_sign s = { .keys = keys, .region = get_region(web), .host = host, .path = path,
			     .range = range, .now = time(NULL) };
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
