#include "daemon/fetch/s3-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/url.h"
#include "daemon/engines/web/s3-list.h"
#include "daemon/engines/web/s3-match.h"
#include "daemon/fetch/http-get.h"
#include "daemon/fetch/s3.h"

#define MAX_PAGES 100000 /* pages of 1000 objects each */
#define MAX_FITTING 4000000
#define FIRST_WAIT_US 100000u

struct page_data {
	char *data;
	size_t size, capacity;
	void (*came)(void *arg, size_t size);
	void *arg;
};

struct listing {
	FILE *out;
	const char *pattern; /* NULL: none */
	size_t n_fitting;
	char last[S3_KEY_SIZE]; /* S3 sends keys in order; a key that is not greater means that
				 * the server repeats itself */
};

static int keep(void *arg, uint64_t at, const void *data, size_t size)
{
	struct page_data *p = arg;
	size_t need = p->size + size;
	char *more;

	if (need > S3_LIST_MAX_SIZE)
		return -EFBIG;
	if (need > p->capacity) {
		more = realloc(p->data, 2 * need);
		if (!more)
			return -ENOMEM;
		p->data = more;
		p->capacity = 2 * need;
	}
	memcpy(p->data + p->size, data, size);
	p->size = need;
	p->came(p->arg, size);
	return 0;
}

static int refuse_listing(struct error *err, const char *why)
{
	error_set(err, EBADMSG, "%s", why);
	return error_set_hint(err, -EBADMSG, "tell the administrator of the server");
}

static int write_object(void *arg, const struct s3_object *o, struct error *err)
{
	struct listing *l = arg;
	char key[3 * S3_KEY_SIZE];

	if (l->last[0] && strcmp(o->key, l->last) <= 0)
		return refuse_listing(err, "the server lists keys twice or in the wrong order");
	strcpy(l->last, o->key);
	if (l->pattern && !s3_match(l->pattern, o->key))
		return 0;
	if (l->pattern && ++l->n_fitting > MAX_FITTING) {
		error_set(err, E2BIG, "more than %d objects fit the pattern", MAX_FITTING);
		return error_set_hint(err, -E2BIG, "name fewer by each item");
	}
	if (s3_encode(o->key, 1, key, sizeof(key)) < 0)
		return refuse_listing(err, "a key is too long");
	fprintf(l->out, "%" PRIu64 " %s %s\n", o->size,
		o->etag[0] && !strpbrk(o->etag, " \n") ? o->etag : "-", key);
	return ferror(l->out) ? error_set(err, EIO, "write the listing") : 0;
}

/* Writes the query. Its parameters are in byte order, as the signature requires. A pattern without
 * "/" after its first "*" matches no deeper keys, so the server need not list them. */
static int make_query(const char *key, bool is_pattern, const char *token, char *buf, size_t size,
		      struct error *err)
{
	char prefix[S3_KEY_SIZE], p[3 * S3_KEY_SIZE], t[3 * 2048];
	size_t n_prefix = is_pattern ? s3_pattern_prefix(key) : strlen(key);
	bool is_flat = is_pattern && !strchr(key + n_prefix, '/');
	int n;

	if (n_prefix >= sizeof(prefix))
		return error_set(err, ENAMETOOLONG, "the prefix is too long");
	memcpy(prefix, key, n_prefix);
	prefix[n_prefix] = '\0';
	if (s3_encode(prefix, 0, p, sizeof(p)) < 0 || s3_encode(token, 0, t, sizeof(t)) < 0)
		return error_set(err, ENAMETOOLONG, "the prefix is too long");
	n = snprintf(buf, size, "%s%s%s%sencoding-type=url&list-type=2&prefix=%s",
		     *token ? "continuation-token=" : "", t, *token ? "&" : "",
		     is_flat ? "delimiter=%2F&" : "", p);
	return n < 0 || (size_t)n >= size ? error_set(err, ENAMETOOLONG, "the prefix is too long")
					  : 0;
}

/* A page has no ETag and cannot be resumed. If one breaks off, the whole page is requested
 * again. */
static int get_page(struct http *h, const char *url, const char *query, struct page_data *data,
		    struct error *err)
{
	const struct http_request rq = {
		.url = url,
		.query = query,
		.to = HTTP_END,
		.known_total = HTTP_END,
		.sink = keep,
		.arg = data,
	};
	struct http_reply reply;
	int r;

	for (int n_broken = 1;; n_broken++) {
		data->size = 0;
		r = http_get(h, &rq, &reply, err);
		if (r != -EIO || data->size == 0 || n_broken == HTTP_MAX_TRIES)
			return r;
		*err = (struct error)ERROR_INIT;
		usleep(FIRST_WAIT_US << n_broken);
	}
}

int s3_list(struct http *h, const char *url, bool is_pattern, int fd,
	    void (*came)(void *arg, size_t size), void *arg, struct error *err)
{
	struct listing l = { 0 };
	struct page_data data = { .came = came, .arg = arg };
	struct s3_page page = { .truncated = true };
	char query[S3_MAX_URL];
	struct url parts;
	int r, n = 0, out = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	l.out = out < 0 ? NULL : fdopen(out, "w");
	if (!l.out) {
		fd_closep(&out);
		return error_errno(err, errno, "write the listing");
	}
	r = url_parse(&parts, url, err);
	if (r == 0 && is_pattern)
		l.pattern = parts.path;
	while (r == 0 && page.truncated) {
		r = make_query(parts.path, is_pattern, page.token, query, sizeof(query), err);
		if (r == 0)
			r = get_page(h, url, query, &data, err);
		if (r == 0)
			r = s3_list_read(data.data ? data.data : "", data.size, &page, write_object,
					 &l, err);
		if (r == 0 && page.truncated && (!page.token[0] || ++n > MAX_PAGES))
			r = error_set(err, EBADMSG, "the listing has no end");
		if (r == -EBADMSG)
			error_prefix(err, "%s", url);
	}
	if (fclose(l.out) != 0 && r == 0)
		r = error_set(err, EIO, "write the listing");
	free(data.data);
	return r;
}
