#include "daemon/worker/web/web-set.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/dataset/expand.h"
#include "common/util/error.h"
#include "common/util/url.h"
#include "daemon/engines/web/s3-match.h"
#include "daemon/engines/web/web.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/fetch-concurrency.h"
#include "daemon/worker/web/fetch-ranges.h"
#include "daemon/worker/web/s3-objects.h"

#define AT_ONCE 16 /* requests for sizes at the same time */

/* ---- the objects ---- */

/* Returns the last component of the path, unchanged, in *namep. */
static int name_of(const char *url, char **namep, struct error *err)
{
	/* keys of S3 may contain "?" and "#" */
	size_t end = url_scheme_of(url) == URL_S3 ? strlen(url) : strcspn(url, "?#"), from = end;
	char shown[512];

	while (from > 0 && url[from - 1] != '/')
		from--;
	if (end == from || end - from > NAME_MAX || !strncmp(url + from, ".", end - from) ||
	    (end - from == 2 && !strncmp(url + from, "..", 2))) {
		error_set(err, EINVAL, "%s has no name that a file could have",
			  web_show(url, shown, sizeof(shown)));
		return error_set_hint(err, -EINVAL,
				      "name files by addresses that end in their names");
	}
	*namep = strndup(url + from, end - from);
	return *namep ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* Checks an S3 address against the rule. stage-fetch checks those of http, but has no rules for
 * S3. */
static int check_rule(const struct ctx *ctx, const char *url, struct error *err)
{
	const char *match = ctx->policy.rule_match;

	if (url_scheme_of(match) != URL_S3 || url_match(match, url))
		return 0;
	error_exit(err, STAGE_EXIT_REFUSED, EPERM,
		   "%s is outside of %s, which the site's rule allows", url, match);
	return error_set_hint(err, -EPERM, "name it as an item of its own");
}

static int add_word(struct fetch_object **objectsp, size_t *np, const char *url, struct error *err)
{
	struct fetch_object *more = reallocarray(*objectsp, *np + 1, sizeof(*more));

	if (!more)
		return error_set(err, ENOMEM, "out of memory");
	*objectsp = more;
	more[*np] = (struct fetch_object){ .size = HTTP_END, .url = strdup(url) };
	return more[(*np)++].url ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int compare_urls(const void *a, const void *b)
{
	return strcmp(((const struct fetch_object *)a)->url, ((const struct fetch_object *)b)->url);
}

/* Finds all objects of the set and sorts them: it expands the braces and lists the patterns among
 * the results. */
static int find_objects(struct ctx *ctx, struct source *src, struct error *err)
{
	_cleanup_(names_deinit) struct names words = { 0 };
	bool is_s3 = ctx->ds->scheme == DATASET_SCHEME_S3;
	int r;

	r = expand_braces(ctx->ds->source, &words, err);
	for (size_t i = 0; r == 0 && i < words.n; i++)
		r = check_rule(ctx, words.v[i], err);
	for (size_t i = 0; r == 0 && i < words.n; i++) {
		if (is_s3 && s3_is_pattern(words.v[i]))
			r = s3_objects_find(ctx, src, words.v[i], true, &src->objects,
					    &src->n_objects, err);
		else
			r = add_word(&src->objects, &src->n_objects, words.v[i], err);
	}
	for (size_t i = 0; r == 0 && i < src->n_objects; i++)
		r = check_rule(ctx, src->objects[i].url, err);
	if (r < 0)
		return r;
	if (src->n_objects == 0) {
		error_set(err, ENOENT, "%s: no object fits the pattern", src->path);
		return error_set_hint(err, -ENOENT, "check bucket and pattern");
	}
	qsort(src->objects, src->n_objects, sizeof(*src->objects), compare_urls);
	return 0;
}

static int take_objects(struct ctx *ctx, struct source *src, struct error *err)
{
	size_t n = src->n_objects;
	struct shard shard;
	int r;

	r = shard_init(&shard, ctx, n, err);
	if (r < 0)
		return r;
	src->members = calloc(n + 1, sizeof(*src->members));
	if (!src->members)
		return error_set(err, ENOMEM, "out of memory");
	src->n_members_all = n;
	src->n_objects = 0;
	for (size_t i = 0; i < n; i++) {
		struct fetch_object o = src->objects[i];
		struct source_member *m = &src->members[src->n_members];

		src->objects[i] = (struct fetch_object){ 0 };
		free(o.name);
		o.name = NULL;
		if (r < 0 || !shard_takes(&shard, i)) {
			free(o.url);
			continue;
		}
		r = name_of(o.url, &o.name, err);
		src->objects[src->n_objects++] = o;
		m->path = strdup(o.url);
		m->name = o.name;
		src->n_members++;
		if (r == 0 && !m->path)
			r = error_set(err, ENOMEM, "out of memory");
	}
	return r < 0 ? r : source_check_names(src, err);
}

/* ---- the sizes ---- */

static int ask_one(struct source *src, size_t i, uint32_t *idp, struct error *err)
{
	const struct fetch_get get = {
		.url = src->objects[i].url,
		.to = 1,
		.whole_is_fine = true,
		.known_total = HTTP_END,
	};

	return fetch_get(src->fetch, &get, src->fd, idp, err);
}

static int take_answer(struct fetch_object *o, const struct fetch_event *e, struct error *err)
{
	char shown[512];

	if (e->what == FETCH_FAILED) {
		*err = e->error;
		return err->code;
	}
	o->size = e->reply.total;
	o->validator = e->reply.validator;
	o->ranges = e->reply.ranges && http_validator_for_range(&o->validator);
	if (o->size <= INT64_MAX)
		return 0;
	error_set(err, EIO, "%s: the server does not say how large it is",
		  web_show(o->url, shown, sizeof(shown)));
	return error_set_hint(err, -EIO, "stage it as an item of its own");
}

static size_t skip_listed(const struct source *src, size_t i)
{
	while (i < src->n_objects && src->objects[i].size != HTTP_END)
		i++;
	return i;
}

static int ask_sizes(struct ctx *ctx, struct source *src, struct error *err)
{
	struct {
		uint32_t id;
		size_t i;
	} asked[AT_ONCE] = { 0 };
	const size_t most = fetch_concurrency_most(ctx->policy.max_readers, ctx->ds->threads);
	const size_t n_at_once = most < AT_ONCE ? most : AT_ONCE;
	size_t next = 0, n_asked = 0;
	struct fetch_event e;
	int r;

	for (;;) {
		for (size_t k = 0; k < n_at_once; k++) {
			next = skip_listed(src, next);
			if (asked[k].id || next == src->n_objects)
				continue;
			asked[k].i = next;
			r = ask_one(src, next++, &asked[k].id, err);
			if (r < 0)
				return r;
			n_asked++;
		}
		if (n_asked == 0)
			return 0;
		r = fetch_wait(src->fetch, ctx, 1000, &e, err);
		if (r < 0)
			return r;
		for (size_t k = 0; r > 0 && k < n_at_once; k++) {
			if (!asked[k].id || asked[k].id != e.id || e.what == FETCH_CAME)
				continue;
			r = take_answer(&src->objects[asked[k].i], &e, err);
			if (r < 0)
				return r;
			asked[k].id = 0;
			n_asked--;
			break;
		}
	}
}

int web_set_open(struct ctx *ctx, struct source *src, struct error *err)
{
	int r;

	src->kind = SOURCE_SET;
	r = find_objects(ctx, src, err);
	if (r < 0)
		return r;
	r = take_objects(ctx, src, err);
	if (r < 0)
		return r;
	src->fd = memfd_create("web", MFD_CLOEXEC);
	if (src->fd < 0)
		return error_errno(err, errno, "make a file in memory");
	r = ask_sizes(ctx, src, err);
	fd_closep(&src->fd);
	return r;
}
