#include "daemon/worker/web-set.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/url.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/expand.h"
#include "daemon/worker/fetch-files.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web.h"

#define AT_ONCE 16 /* questions */

/* ---- which ---- */

/* The last component of the path, as it is written. */
static int name_of(const char *url, char **namep, struct error *err)
{
	/* keys of S3 may have both */
	size_t end = url_scheme_of(url) == URL_S3 ? strlen(url) : strcspn(url, "?#"), from = end;
	char shown[512];

	while (from > 0 && url[from - 1] != '/')
		from--;
	if (end == from || end - from > NAME_MAX || !strncmp(url + from, ".", end - from) ||
	    (end - from == 2 && !strncmp(url + from, "..", 2))) {
		error_set(err, EINVAL, "%s has no name that a file could have",
			  web_show(url, shown, sizeof(shown)));
		return error_mend(err, -EINVAL, "name files by addresses that end in their names");
	}
	*namep = strndup(url + from, end - from);
	return *namep ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct fetch_object *const *)a)->name,
		      (*(const struct fetch_object *const *)b)->name);
}

/* stage-fetch holds addresses of http against the rules; those of S3 it has no rules for. */
static int check_rule(const struct ctx *ctx, const struct names *names, struct error *err)
{
	const char *match = ctx->policy.rule_match;

	for (size_t i = 0; i < names->n && url_scheme_of(match) == URL_S3; i++) {
		if (url_match(match, names->v[i]))
			continue;
		error_exit(err, STAGE_EXIT_REFUSED, EPERM,
			   "%s is outside of %s, which the site's rule allows", names->v[i], match);
		return error_mend(err, -EPERM, "name it as an item of its own");
	}
	return 0;
}

/* They all go into one directory. */
static int check_names_unique(const struct source *src, struct error *err)
{
	_cleanup_(freep) const struct fetch_object **v = calloc(src->n_objects + 1, sizeof(*v));
	char shown[2][256];

	if (!v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < src->n_objects; i++)
		v[i] = &src->objects[i];
	qsort(v, src->n_objects, sizeof(*v), compare_names);
	for (size_t i = 1; i < src->n_objects; i++) {
		if (strcmp(v[i - 1]->name, v[i]->name))
			continue;
		error_set(err, EEXIST, "%s and %s have the same name, and a set is staged into one "
			  "directory", web_show(v[i - 1]->url, shown[0], sizeof(shown[0])),
			  web_show(v[i]->url, shown[1], sizeof(shown[1])));
		return error_mend(err, -EEXIST, "stage them as two items");
	}
	return 0;
}

static int take_objects(struct ctx *ctx, struct source *src, const struct names *names,
			struct error *err)
{
	struct shard shard;
	int r;

	r = shard_init(&shard, ctx, names->n, err);
	if (r < 0)
		return r;
	src->objects = calloc(names->n + 1, sizeof(*src->objects));
	src->members = calloc(names->n + 1, sizeof(*src->members));
	if (!src->objects || !src->members)
		return error_set(err, ENOMEM, "out of memory");
	src->n_members_all = names->n;
	for (size_t i = 0; i < names->n; i++) {
		struct fetch_object *o = &src->objects[src->n_objects];

		if (!shard_takes(&shard, i))
			continue;
		r = name_of(names->v[i], &o->name, err);
		if (r < 0)
			return r;
		src->n_objects++;
		o->size = HTTP_END;
		o->url = strdup(names->v[i]);
		src->members[src->n_members].path = strdup(names->v[i]);
		src->members[src->n_members].name = o->name;
		if (!o->url || !src->members[src->n_members++].path)
			return error_set(err, ENOMEM, "out of memory");
	}
	return check_names_unique(src, err);
}

/* ---- how large ---- */

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
	return error_mend(err, -EIO, "stage it as an item of its own");
}

static int ask_sizes(struct ctx *ctx, struct source *src, struct error *err)
{
	struct { uint32_t id; size_t i; } asked[AT_ONCE] = { 0 };
	size_t next = 0, n_asked = 0;
	struct fetch_event e;
	int r;

	while (next < src->n_objects || n_asked > 0) {
		for (size_t k = 0; k < AT_ONCE && next < src->n_objects; k++) {
			if (asked[k].id)
				continue;
			asked[k].i = next;
			r = ask_one(src, next++, &asked[k].id, err);
			if (r < 0)
				return r;
			n_asked++;
		}
		r = fetch_wait(src->fetch, ctx, 1000, &e, err);
		if (r < 0)
			return r;
		for (size_t k = 0; r > 0 && k < AT_ONCE; k++) {
			if (!asked[k].id || asked[k].id != e.id || e.what == FETCH_CAME)
				continue;
			r = take_answer(&src->objects[asked[k].i], &e, err);
			if (r < 0)
				return r;
			asked[k].id = 0;
			n_asked--;
			ctx_add_progress(ctx, 0, 0);
			break;
		}
	}
	return 0;
}

int web_set_open(struct ctx *ctx, struct source *src, struct error *err)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	int r;

	src->kind = SOURCE_SET;
	r = expand_braces(ctx->ds->source, &names, err);
	if (r < 0)
		return r;
	names_sort(&names);
	r = check_rule(ctx, &names, err);
	if (r < 0)
		return r;
	r = take_objects(ctx, src, &names, err);
	if (r < 0)
		return r;
	src->fd = memfd_create("web", MFD_CLOEXEC);
	if (src->fd < 0)
		return error_errno(err, errno, "make a file in memory");
	r = ask_sizes(ctx, src, err);
	fd_closep(&src->fd);
	return r;
}
