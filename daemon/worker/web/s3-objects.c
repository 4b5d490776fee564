#include "daemon/worker/web/s3-objects.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"
#include "common/util/url.h"
#include "daemon/engines/web/s3-list.h"
#include "daemon/engines/web/s3-match.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/fetch-ranges.h"

#define MAX_LISTING (1u << 30)

struct wanted {
	char *bucket;
	const char *key; /* a prefix or a pattern */
	bool is_pattern;
};

/* Parses a line: size, ETag and encoded key, such as `12 "etag" encoded%20key`. */
static int read_line(const struct wanted *wanted, char *line, struct fetch_object *o,
		     struct error *err)
{
	char *etag = strchr(line, ' '), *key = etag ? strchr(etag + 1, ' ') : NULL;
	uint64_t size;

	if (!key)
		return error_set(err, EIO, "the server's listing can't be read");
	*etag++ = *key++ = '\0';
	if (parse_uint64(line, &size) < 0 || size > INT64_MAX || !s3_url_decode(key) ||
	    (wanted->is_pattern ? !s3_match(wanted->key, key)
				: strncmp(key, wanted->key, strlen(wanted->key)) != 0)) {
		error_set(err, EIO, "the server lists what was not asked for: %.300s", key);
		return error_set_hint(err, -EIO, "tell the administrator of the server");
	}
	*o = (struct fetch_object){ .size = size };
	snprintf(o->validator.etag, sizeof(o->validator.etag), "%s", etag[0] == '-' ? "" : etag);
	o->ranges = http_validator_for_range(&o->validator);
	o->name = strdup(key);
	o->url = strutil_printf("s3://%s/%s", wanted->bucket, key);
	return o->name && o->url ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int read_listing(const struct wanted *wanted, char *data, struct fetch_object **objectsp,
			size_t *np, struct error *err)
{
	struct fetch_object *more;
	size_t n_lines = 0;
	char *save = NULL;
	int r = 0;

	for (const char *p = data; *p; p++)
		n_lines += *p == '\n';
	more = reallocarray(*objectsp, *np + n_lines + 1, sizeof(*more));
	if (!more)
		return error_set(err, ENOMEM, "out of memory");
	*objectsp = more;
	for (char *line = strtok_r(data, "\n", &save); r == 0 && line;
	     line = strtok_r(NULL, "\n", &save)) {
		more[*np] = (struct fetch_object){ 0 };
		r = read_line(wanted, line, &more[(*np)++], err);
	}
	return r;
}

static int fetch_listing(struct ctx *ctx, struct source *src, const char *url, bool is_pattern,
			 char **datap, struct error *err)
{
	const struct fetch_get get = {
		.url = url, .is_list = true, .is_pattern = is_pattern, .known_total = HTTP_END
	};
	_cleanup_(fd_closep) int fd = memfd_create("list", MFD_CLOEXEC);
	struct http_reply reply;
	size_t size;
	int r;

	if (fd < 0)
		return error_errno(err, errno, "make a file in memory");
	r = fetch_get_now(src->fetch, ctx, &get, fd, &reply, err);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return error_errno(err, errno, "read the listing");
	r = fd_read_file(fd, MAX_LISTING, datap, &size);
	return r < 0 ? error_errno(err, -r, "read the listing") : 0;
}

int s3_objects_find(struct ctx *ctx, struct source *src, const char *url, bool is_pattern,
		    struct fetch_object **objectsp, size_t *np, struct error *err)
{
	_cleanup_(freep) char *data = NULL, *bucket = NULL;
	struct wanted wanted = { .is_pattern = is_pattern };
	struct url parts;
	int r;

	r = url_parse(&parts, url, err);
	if (r < 0)
		return r;
	wanted.bucket = bucket = strndup(parts.host, parts.n_host);
	wanted.key = parts.path;
	if (!bucket)
		return error_set(err, ENOMEM, "out of memory");
	r = fetch_listing(ctx, src, url, is_pattern, &data, err);
	return r < 0 ? r : read_listing(&wanted, data, objectsp, np, err);
}
