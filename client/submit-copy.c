#include "client/submit-copy.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/items.h"
#include "common/config/conf.h"
#include "common/util/error.h"
#include "common/util/fnv.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

#define NAME_MAX_LENGTH 32

void submit_copies_deinit(struct submit_copies *c)
{
	for (size_t i = 0; i < c->n_items; i++) {
		free(c->items[i].source);
		free(c->items[i].base);
		free(c->items[i].dir);
		free(c->items[i].path);
	}
	free(c->items);
	*c = (struct submit_copies){ 0 };
}

struct finder {
	const struct conf *conf;
	const char *user;
	char **groups;
	size_t n_groups;
};

/* ---- where ---- */

static const struct conf_tier *find_tier(const struct conf *conf, const struct conf_source *rule)
{
	_cleanup_(freep) char *order = rule->tiers && *rule->tiers ? strdup(rule->tiers) : NULL;
	const struct conf_tier *t;
	char *save = NULL;

	if (order) {
		for (char *w = strtok_r(order, ",", &save); w; w = strtok_r(NULL, ",", &save))
			if ((t = conf_get_tier(conf, w)) && t->kind == CONF_TIER_SHARED)
				return t;
		return NULL;
	}
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf->tiers[i].kind == CONF_TIER_SHARED)
			return &conf->tiers[i];
	return NULL;
}

/* The directory must belong to the user and be the same for all jobs of the user. */
static int check_tier(const struct conf_source *rule, const struct conf_tier *t, struct error *err)
{
	if (!t)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "[source %s] has VisibleOn=mover, and its Tiers= name no tier of "
				  "Kind=shared to move to",
				  rule->name);
	if (!strstr(t->path, "%u") || strstr(t->path, "%j") || strstr(t->path, "%a") ||
	    strstr(t->path, "%N"))
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "[source %s] has VisibleOn=mover, and Path=%s of [tier %s] is no "
				  "place to move to: it needs %%u, and no %%j, %%a or %%N",
				  rule->name, t->path, t->name);
	return 0;
}

static int get_base(const struct finder *f, const struct conf_source *rule, char **basep,
		    struct error *err)
{
	const struct conf_tier *t = find_tier(f->conf, rule);
	const struct group *gr = getgrgid(getegid());
	const struct conf_expand e = { .user = f->user, .group = gr ? gr->gr_name : NULL };
	_cleanup_(freep) char *path = NULL;
	int r;

	r = check_tier(rule, t, err);
	if (r == 0)
		r = conf_expand_path(t->path, &e, &path, err);
	if (r < 0)
		return error_set_hint(err, r, "ask the administrators");
	*basep = path_join(path, "stage-data");
	return *basep ? 0 : error_set(err, ENOMEM, "out of memory");
}

static void add_base(char **bases, size_t *n_basesp, char *base)
{
	for (size_t i = 0; i < *n_basesp; i++)
		if (!strcmp(bases[i], base)) {
			free(base);
			return;
		}
	bases[(*n_basesp)++] = base;
}

void submit_copies_get_bases(const struct conf *conf, char ***basesp, size_t *n_basesp)
{
	const struct finder f = { .conf = conf, .user = items_get_user() };
	char **bases = calloc(conf->n_sources + 1, sizeof(*bases)), *base;
	struct error err = ERROR_INIT;
	size_t n = 0;

	for (size_t i = 0; bases && i < conf->n_sources; i++)
		if (conf->sources[i].visible_on == CONF_VISIBLE_MOVER &&
		    get_base(&f, &conf->sources[i], &base, &err) == 0)
			add_base(bases, &n, base);
	*basesp = bases;
	*n_basesp = n;
}

static void make_key(const struct submit_copy *c, char key[static SUBMIT_KEY_SIZE])
{
	uint64_t h = fnv_add_text(fnv_add_text(FNV_INIT, c->source), c->base);

	/* a file whose name is the pattern needs another key than the pattern */
	if (c->literal)
		h = fnv_add(h, "", 1);
	if (c->follow)
		h = fnv_add_text(h, "links=follow");
	snprintf(key, SUBMIT_KEY_SIZE, "%016llx", (unsigned long long)h);
}

/* Makes readable paths, with the key to make them unique. The copy of a pattern is a directory that
 * stands for the pattern's top directory; the rest of the pattern continues in it. */
static int make_paths(struct submit_copy *c, struct error *err)
{
	size_t n_top = c->literal ? strlen(c->source) : path_get_top(c->source);
	_cleanup_(freep) char *top = strndup(c->source, n_top), *copy = NULL;
	const char *file = top ? path_base(top) : "", *rest = c->source + (top ? strlen(top) : 0);
	char name[NAME_MAX_LENGTH + SUBMIT_KEY_SIZE + 1];
	size_t n = 0;

	for (const char *p = file; *p && *p != '.' && n < NAME_MAX_LENGTH; p++)
		name[n++] =
			strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
			       *p)
				? *p
				: '_';
	snprintf(name + n, sizeof(name) - n, "-%s", c->key);
	c->dir = path_join(c->base, name);
	copy = top && c->dir ? path_join(c->dir, file) : NULL;
	if (copy)
		c->path = strutil_printf("%s%s", copy, rest);
	return c->path ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* ---- which ---- */

/* Returns 1 and the rule if compute nodes do not see the source, else 0. */
static int match(const struct finder *f, struct dataset *d, const struct conf_source **rulep)
{
	struct error err = ERROR_INIT;

	if (d->scheme != DATASET_SCHEME_FILE)
		return 0;
	if (conf_match(f->conf, d->source, f->user, (const char *const *)f->groups, f->n_groups,
		       false, rulep, &err) < 0)
		return 0;
	return (*rulep)->visible_on == CONF_VISIBLE_MOVER;
}

static int check_item(const struct dataset *d, struct error *err)
{
	const char *bad = d->source;

	if (!d->literal && path_get_top(d->source) == 0)
		return error_exit(
			err, STAGE_EXIT_USAGE, EINVAL,
			"%s: a pattern can't be moved without a directory in front of its "
			"first wildcard",
			d->name);
	for (; *bad; bad++)
		if ((unsigned char)*bad < ' ' || *bad == 0x7f || *bad == '$')
			return error_exit(err, STAGE_EXIT_USAGE, EINVAL,
					  "%s: a name with '$' or control characters can't be "
					  "moved; give it another one",
					  d->name);
	if (!strcmp(d->source, "/"))
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s: / can't be moved", d->name);
	return 0;
}

/* A rule must allow jobs to read the copy. */
static int check_copy_rule(const struct finder *f, const struct submit_copy *c, struct error *err)
{
	const struct conf_source *rule;

	if (conf_match(f->conf, c->path, f->user, (const char *const *)f->groups, f->n_groups,
		       false, &rule, NULL) < 0 ||
	    rule->visible_on == CONF_VISIBLE_MOVER)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "%s would be moved to %s, which no [source] lets jobs read; ask "
				  "the administrators for one with Match=%s/**",
				  c->source, c->dir, c->base);
	return 0;
}

/* DEST is a place on the node. If it names the tier of the copy, the copy is used in place. */
static int rewrite(struct dataset *d, const struct submit_copy *c, const char *tier,
		   struct error *err)
{
	char *source = strdup(c->path), *dest = NULL;

	if (d->dest && !strcmp(d->dest, tier))
		dest = strdup("source");
	if (!source || (d->dest && !strcmp(d->dest, tier) && !dest)) {
		free(source);
		return error_set(err, ENOMEM, "out of memory");
	}
	free(d->source);
	d->source = source;
	d->name_given = true;
	d->follow = false; /* the copy has no links any more */
	if (dest) {
		free(d->dest);
		d->dest = dest;
	}
	return 0;
}

static int submit_copy_add(struct submit_copies *all, const struct finder *f, struct dataset *d,
			   const struct conf_source *rule, struct error *err)
{
	struct submit_copy *c = &all->items[all->n_items];
	int r;

	r = check_item(d, err);
	if (r < 0)
		return r;
	*c = (struct submit_copy){
		.rule = rule,
		.name = d->name,
		.source = strdup(d->source),
		.literal = d->literal,
		.follow = d->follow,
	};
	all->n_items++;
	if (!c->source)
		return error_set(err, ENOMEM, "out of memory");
	r = get_base(f, rule, &c->base, err);
	if (r < 0)
		return r;
	make_key(c, c->key);
	r = make_paths(c, err);
	if (r == 0)
		r = check_copy_rule(f, c, err);
	return r < 0 ? r : rewrite(d, c, find_tier(f->conf, rule)->name, err);
}

static int find_all(struct submit_copies *c, const struct finder *f, struct dataset_list *list,
		    struct error *err)
{
	const struct conf_source *rule;
	int r = 0;

	for (size_t i = 0; i < list->n_items && r == 0; i++) {
		struct dataset *d = &list->items[i];

		/* the source of a catalogue entry may need a mover, too */
		if (d->scheme == DATASET_SCHEME_CATALOG) {
			_cleanup_(dataset_list_deinit) struct dataset_list one = { 0 };
			_cleanup_(freep) char *text = NULL;

			if (dataset_to_string(d, &text) < 0 ||
			    dataset_list_from_string(&one, text, NULL) < 0 ||
			    conf_resolve_dataset(f->conf, &one.items[0], NULL) < 0 ||
			    !match(f, &one.items[0], &rule))
				continue;
			r = conf_resolve_dataset(f->conf, d, err);
		}
		if (r == 0 && match(f, d, &rule))
			r = submit_copy_add(c, f, d, rule, err);
	}
	return r;
}

int submit_copies_find(struct submit_copies *c, const struct conf *conf, struct dataset_list *list,
		       struct error *err)
{
	struct finder f = { .conf = conf, .user = items_get_user() };
	int r;

	c->items = calloc(list->n_items + 1, sizeof(*c->items));
	if (!c->items || conf_get_own_groups(&f.groups, &f.n_groups) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = find_all(c, &f, list, err);
	conf_free_groups(f.groups, f.n_groups);
	return r;
}

/* ---- for administrators ---- */

static bool lets_jobs_read(const struct conf *conf, const char *path)
{
	for (size_t i = 0; i < conf->n_sources; i++)
		if (path_match(conf->sources[i].match, path))
			return conf->sources[i].visible_on != CONF_VISIBLE_MOVER;
	return false;
}

static int check_rule(const struct conf *conf, const struct conf_source *rule, struct error *err)
{
	const struct conf_tier *t = find_tier(conf, rule);
	const struct conf_expand e = { .user = "user", .group = "group" };
	_cleanup_(freep) char *path = NULL, *copy = NULL;
	int r;

	r = check_tier(rule, t, err);
	if (r == 0)
		r = conf_expand_path(t->path, &e, &path, err);
	if (r < 0)
		return r;
	copy = path_join(path, "stage-data/x-0/x");
	if (copy && !lets_jobs_read(conf, copy))
		return error_set(err, EPERM,
				 "[source %s]: its copies will be in %s/stage-data of "
				 "[tier %s], which no [source] lets jobs read",
				 rule->name, t->path, t->name);
	return 0;
}

void submit_copies_check(const struct conf *conf, void (*fn)(void *arg, const char *text),
			 void *arg)
{
	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *rule = &conf->sources[i];
		struct error err = ERROR_INIT;
		const char *file;
		unsigned line;

		if (rule->visible_on != CONF_VISIBLE_MOVER || check_rule(conf, rule, &err) == 0)
			continue;
		if (conf_get_place(conf, "source", rule->name, &file, &line))
			error_prefix(&err, "%s:%u", file, line);
		fn(arg, err.text);
	}
}
