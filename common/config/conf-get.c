/*
 * Look-ups in a loaded configuration, with the placeholders filled in: the path of a tier for a
 * job, the source of a dataset for @name.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <string.h>

#include "common/protocol/kv.h"
#include "common/util/fnv.h"
#include "common/util/strutil.h"

const struct conf_tier *conf_get_tier(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (!strcmp(conf->tiers[i].name, name))
			return &conf->tiers[i];
	return NULL;
}

uint64_t conf_tier_get_mark(const struct conf_tier *t)
{
	const unsigned char kind = (unsigned char)t->kind;
	uint64_t hash = fnv_add(FNV_INIT, &kind, sizeof(kind));

	hash = fnv_add(hash, t->name, strlen(t->name) + 1);
	hash = fnv_add(hash, t->path, strlen(t->path) + 1);
	return CONF_TIER_MARK | (hash & (CONF_TIER_MARK - 1));
}

const struct conf_tier *conf_find_tier(const struct conf *conf, uint64_t mark)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf_tier_get_mark(&conf->tiers[i]) == mark)
			return &conf->tiers[i];
	return NULL;
}

const struct conf_dataset *conf_get_dataset(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->n_datasets; i++)
		if (!strcmp(conf->datasets[i].name, name))
			return &conf->datasets[i];
	return NULL;
}

/* Returns the value of placeholder %c; NULL if it is not a placeholder. */
static const char *placeholder(const struct conf_expand *e, char c, char number[static 16])
{
	switch (c) {
	case 'u':
		return e->user;
	case 'g':
		return e->group;
	case 'N':
		return e->node;
	case 'a':
		return e->array_task ? e->array_task : "0";
	case 'j':
		snprintf(number, 16, "%u", e->job_id);
		return number;
	case '%':
		return "%";
	default:
		return NULL;
	}
}

/* Writes the value of "%c". */
static int put_placeholder(FILE *f, const char *path, char c, const struct conf_expand *e,
			   struct error *err)
{
	char number[16];
	const char *value = placeholder(e, c, number);

	if (!value)
		return error_set(err, EINVAL, "%s: %%%c is not known here; use %%u %%g %%j %%a %%N",
				 path, c ? c : ' ');
	if (!*value || strchr(value, '/') || !strcmp(value, ".") || !strcmp(value, ".."))
		return error_set(err, EINVAL,
				 "%s: \"%s\", which replaces %%%c, can't be part of a path", path,
				 value, c);
	fputs(value, f);
	return 0;
}

int conf_expand_path(const char *path, const struct conf_expand *e, char **outp, struct error *err)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	int r = 0;

	if (!f)
		return error_errno(err, ENOMEM, "expand %s", path);
	for (const char *p = path; r == 0 && *p; p++) {
		if (*p == '%')
			r = put_placeholder(f, path, *++p, e, err);
		else
			fputc(*p, f);
	}
	if ((ferror(f) | fclose(f)) && r == 0)
		r = error_errno(err, ENOMEM, "expand %s", path);
	if (r < 0) {
		free(out);
		return r;
	}
	*outp = out;
	return 0;
}

/* Appends "/sub" to the source of the [dataset]. */
static int join_sub(char **sourcep, const char *sub)
{
	char *joined;
	size_t n = strlen(*sourcep);

	while (n > 1 && (*sourcep)[n - 1] == '/')
		n--;
	joined = strutil_printf("%.*s/%s", (int)n, *sourcep, sub);
	if (!joined)
		return -ENOMEM;
	free(*sourcep);
	*sourcep = joined;
	return 0;
}

int conf_read_dataset_source(const char *source, struct dataset_list *list, struct error *err)
{
	const struct dataset *d;
	int r;

	r = dataset_list_from_string(list, source, err);
	if (r < 0)
		return r;
	d = list->items;
	if (list->n_items != 1 || d->name_given || strcmp(d->dest, "auto") || d->method ||
	    d->subdir || d->n_include || d->n_exclude || *d->profile || d->env_keys)
		return error_set(err, EINVAL,
				 "a path or an address alone is wanted, without NAME, DEST "
				 "and options");
	if (d->scheme == DATASET_SCHEME_CATALOG || d->scheme == DATASET_SCHEME_LIST ||
	    (d->scheme == DATASET_SCHEME_FILE && (*d->source != '/' || strchr(d->source, '$'))))
		return error_set(err, EINVAL,
				 "an absolute path, http://, https:// or s3:// is wanted");
	return 0;
}

int conf_resolve_dataset(const struct conf *conf, struct dataset *d, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	const struct conf_dataset *c;
	const char *sub;
	char name[64], *source;
	int r;

	if (d->scheme != DATASET_SCHEME_CATALOG)
		return 0;
	sub = strchr(d->source, '/');
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(d->source, "/"), d->source);
	c = conf_get_dataset(conf, name);
	if (!c)
		return error_exit(
			err, STAGE_EXIT_NO_ITEM, ENOENT,
			"@%s: this site has no dataset of that name; see stagectl list --site",
			name);
	r = conf_read_dataset_source(c->source, &list, err);
	if (r < 0)
		return r;
	sub = sub ? sub + strspn(sub, "/") : "";
	if (*sub && list.items[0].scheme == DATASET_SCHEME_HTTP &&
	    strchr(list.items[0].source, '?'))
		return error_exit(err, STAGE_EXIT_NO_ITEM, ENOENT,
				  "@%s has nothing below it; write @%s alone", name, name);
	if (*sub && join_sub(&list.items[0].source, sub) < 0)
		return error_errno(err, ENOMEM, "@%s", name);
	if (d->method == DATASET_METHOD_AUTO && !*sub)
		d->method = c->method;
	if (d->verify == DATASET_VERIFY_SIZE && *c->sha256 && !*sub) {
		d->verify = DATASET_VERIFY_SHA256;
		memcpy(d->sha256, c->sha256, sizeof(d->sha256));
	}
	if (*d->profile && list.items[0].scheme != DATASET_SCHEME_S3)
		return error_exit(
			err, STAGE_EXIT_USAGE, EINVAL,
			"@%s: profile= names keys for s3://, which it is not; leave it out", name);
	d->scheme = list.items[0].scheme;
	/* env_keys was set before the scheme of @NAME was known. */
	d->env_keys &= d->scheme == DATASET_SCHEME_S3;
	d->literal |= list.items[0].literal;
	d->is_set |= list.items[0].is_set;
	d->is_set &= !d->literal || d->scheme == DATASET_SCHEME_LIST;
	source = d->source;
	d->source = list.items[0].source;
	list.items[0].source = source;
	return 0;
}

static bool has_disk_tier(const struct conf *conf, const char *gres)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf->tiers[i].kind == CONF_TIER_DISK &&
		    conf_tier_is_for(&conf->tiers[i], gres))
			return true;
	return false;
}

/* The limits in the first message to a worker (docs/protocol.md). stagingd sends it, or stagectl,
 * which plans outside of a job. */
void conf_put_limits(const struct conf *conf, const char *gres, struct kv *kv)
{
	kv_set_u64(kv, "maxfiles", conf->max_files);
	kv_set_u64(kv, "stall", conf->stall_timeout_ms);
	kv_set_u64(kv, "cachesize", conf->cache_size);
	kv_set_u64(kv, "fuse", conf->mount_backend != CONF_MOUNT_NONE);
	kv_set_u64(kv, "squashfuse", conf->mount_backend == CONF_MOUNT_SQUASHFUSE);
	kv_set_u64(kv, "ssd", has_disk_tier(conf, gres));
	kv_set_u64(kv, "threads", conf->threads);
}
