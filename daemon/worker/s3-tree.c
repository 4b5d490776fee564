#include "daemon/worker/s3-tree.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/parse.h"
#include "common/url.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/fetch-files.h"
#include "daemon/worker/s3-list.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"

#define MAX_LISTING (1u << 30)

int s3_tree_check_name(const char *name, struct error *err)
{
	const char *p = name;
	size_t n;

	for (;; p += n + 1) {
		n = strcspn(p, "/");
		if (n == 0 && !p[n] && p != name)
			return 0;
		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') || (n == 2 && !memcmp(p, "..", 2)))
			break;
		if (!p[n])
			return 1;
	}
	error_set(err, EINVAL, "the key '%.300s' can't be a path", name);
	return error_mend(err, -EINVAL, "name a prefix without it, or the objects themselves");
}

/* "12 "etag" encoded%20key"; the key less the prefix is the name. */
static int read_line(struct source *src, char *line, const char *bucket, const char *prefix,
		     struct error *err)
{
	struct fetch_object *o = &src->objects[src->n_objects];
	char *etag = strchr(line, ' '), *key = etag ? strchr(etag + 1, ' ') : NULL;
	uint64_t size;
	int r;

	if (!key)
		return error_set(err, EIO, "the listing can't be read");
	*etag++ = *key++ = '\0';
	if (parse_uint64(line, &size) < 0 || size > INT64_MAX || !s3_url_decode(key) ||
	    strncmp(key, prefix, strlen(prefix)))
		return error_set(err, EIO, "the server lists what was not asked for: %.300s", key);
	if (!strcmp(key, prefix))
		return 0; /* the marker of the directory itself */
	r = s3_tree_check_name(key + strlen(prefix), err);
	if (r <= 0)
		return r;
	*o = (struct fetch_object){ .size = size, .ranges = etag[0] == '"' };
	snprintf(o->validator.etag, sizeof(o->validator.etag), "%s", etag[0] == '-' ? "" : etag);
	src->n_objects++;
	o->name = strdup(key + strlen(prefix));
	if (asprintf(&o->url, "s3://%s/%s", bucket, key) < 0)
		o->url = NULL;
	return o->name && o->url ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int read_listing(struct ctx *ctx, struct source *src, char *data, struct error *err)
{
	_cleanup_(freep) char *bucket = NULL;
	struct url url;
	size_t n_lines = 0, kept = 0;
	struct shard shard;
	char *save = NULL;
	int r;

	r = url_parse(&url, ctx->ds->source, err);
	if (r < 0)
		return r;
	for (const char *p = data; *p; p++)
		n_lines += *p == '\n';
	bucket = strndup(url.host, url.n_host);
	src->objects = calloc(n_lines + 1, sizeof(*src->objects));
	if (!bucket || !src->objects)
		return error_set(err, ENOMEM, "out of memory");
	for (char *line = strtok_r(data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		r = read_line(src, line, bucket, url.path, err);
		if (r < 0)
			return r;
	}
	if (src->n_objects == 0) {
		error_set(err, ENOENT, "%s: no object is below it", src->path);
		return error_mend(err, -ENOENT, "check bucket and prefix");
	}
	r = shard_init(&shard, ctx, src->n_objects, err);
	for (size_t i = 0; r == 0 && i < src->n_objects; i++) {
		struct fetch_object o = src->objects[i];

		if (shard_takes(&shard, i)) {
			src->objects[i] = src->objects[kept];
			src->objects[kept++] = o;
		}
	}
	for (size_t i = kept; r == 0 && i < src->n_objects; i++) {
		free(src->objects[i].url);
		free(src->objects[i].name);
	}
	if (r == 0)
		src->n_objects = kept;
	return r;
}

int s3_tree_open(struct ctx *ctx, struct source *src, struct error *err)
{
	const struct fetch_get get = { .url = ctx->ds->source, .is_list = true,
				       .known_total = HTTP_END };
	_cleanup_(fd_closep) int fd = memfd_create("list", MFD_CLOEXEC);
	_cleanup_(freep) char *data = NULL;
	struct http_reply reply;
	size_t size;
	int r;

	src->kind = SOURCE_DIR;
	if (fd < 0)
		return error_errno(err, errno, "make a file in memory");
	if (ctx->ds->n_include || ctx->ds->n_exclude || ctx->ds->subdir) {
		error_set(err, EINVAL, "include=, exclude= and subdir= do not select from s3://");
		return error_mend(err, -EINVAL, "name a longer prefix");
	}
	r = fetch_get_now(src->fetch, ctx, &get, fd, &reply, err);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return error_errno(err, errno, "read the listing");
	r = fd_read_file(fd, MAX_LISTING, &data, &size);
	if (r < 0)
		return error_errno(err, -r, "read the listing");
	return read_listing(ctx, src, data, err);
}
