/*
 * The checks have the order of the answers that people need: which dataset is meant (catalog),
 * which rule covers it, and whether the rule allows the method, checksum and DEST that were asked
 * for.
 *
 * Shared tiers are used when named, never by auto.
 */
#include "common/policy/source-rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/path.h"

void source_rules_deinit(struct source_rules *a)
{
	free(a->rule);
	free(a->rule_match);
	free(a->web);
	free(a->methods);
	free(a->tiers);
	*a = (struct source_rules){ 0 };
}

static int resolve_catalog(const struct conf *conf, struct dataset *d, struct error *err)
{
	int r = conf_resolve_dataset(conf, d, err);

	if (r < 0 && err && !err->exit_code)
		err->exit_code = STAGE_EXIT_REFUSED;
	return r;
}

static int match_rule(const struct source_rules_input *in, const struct dataset *d,
		      const struct conf_source **rulep, struct error *err)
{
	char normal[PATH_MAX];

	if ((d->scheme == DATASET_SCHEME_FILE || d->scheme == DATASET_SCHEME_LIST) &&
	    path_normalize(d->source, normal, sizeof(normal)) < 0)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM, "'%s' is no absolute path",
				  d->source);
	return conf_match(in->conf, d->source, in->user, in->groups, in->n_groups, in->permissive,
			  rulep, err);
}

int source_rules_check(const struct conf_source *rule, const struct dataset *d, struct error *err)
{
	const char *method = dataset_method_to_string(d->method);

	if (rule->visible_on == CONF_VISIBLE_MOVER)
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"compute nodes can't see %s ([source %s] has VisibleOn=mover); submit "
			"the job by `stagectl submit`, which has it copied first",
			d->source, rule->name);
	if (d->method != DATASET_METHOD_AUTO && !conf_source_allows_method(rule, method))
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"method=%s is not allowed for %s by [source %s], which has Methods=%s",
			method, d->source, rule->name, rule->methods);
	if (rule->checksum_required && d->verify != DATASET_VERIFY_SHA256)
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"%s is to come with its checksum ([source %s] has Checksum=required); "
			"add verify=sha256:HEX",
			d->source, rule->name);
	return 0;
}

const struct conf_tier *source_rules_find_tier(const struct conf *conf, const struct conf_expand *e,
					       const char *dest)
{
	for (size_t i = 0; i < conf->n_tiers; i++) {
		_cleanup_(freep) char *path = NULL;

		if (conf->tiers[i].kind == CONF_TIER_MEMORY || !conf->tiers[i].path ||
		    conf_expand_path(conf->tiers[i].path, e, &path, NULL) < 0)
			continue;
		if (path_is_beneath(dest, path))
			return &conf->tiers[i];
	}
	return NULL;
}

static void add_word(char *list, size_t size, const char *word)
{
	size_t n = strlen(list);

	snprintf(list + n, size - n, "%s%s", n ? "," : "", word);
}

static bool auto_may_use(const struct source_rules_input *in, const struct conf_source *rule,
			 const struct conf_tier *t)
{
	return t && t->kind != CONF_TIER_SHARED && conf_source_allows_tier(rule, t->name) &&
	       conf_tier_is_for(t, in->gres);
}

static void list_kind(const struct source_rules_input *in, const struct conf_source *rule,
		      bool memory, char *list, size_t size)
{
	for (size_t i = 0; i < in->conf->n_tiers; i++)
		if ((in->conf->tiers[i].kind == CONF_TIER_MEMORY) == memory &&
		    auto_may_use(in, rule, &in->conf->tiers[i]))
			add_word(list, size, in->conf->tiers[i].name);
}

/* Lists tiers in the order of the rule. Without one, memory comes first, because it may be in no
 * file, and the other tiers have the order of the configuration. */
static void list_auto_tiers(const struct source_rules_input *in, const struct conf_source *rule,
			    char *list, size_t size)
{
	char word[256];
	size_t n;

	for (const char *p = rule->tiers; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, p);
		if (auto_may_use(in, rule, conf_get_tier(in->conf, word)))
			add_word(list, size, word);
	}
	if (!*rule->tiers) {
		list_kind(in, rule, true, list, size);
		list_kind(in, rule, false, list, size);
	}
	if (!*list)
		add_word(list, size, "source");
}

int source_rules_check_tier(const struct conf_source *rule, const struct conf_tier *t,
			    const char *gres, const struct dataset *d, struct error *err)
{
	if (!t)
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			d->dest[0] == '/'
				? "DEST %s is below no tier of this site; leave DEST "
				  "out, or write shm or ssd"
				: "this site has no [tier %s]; leave DEST out, or write auto",
			d->dest);
	if (!conf_source_allows_tier(rule, t->name))
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "%s may not go to %s by [source %s], which has Tiers=%s",
				  d->source, t->name, rule->name, rule->tiers);
	if (!conf_tier_is_for(t, gres))
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"[tier %s] is for jobs with --gres=%s; ask for it, or leave DEST out",
			t->name, t->require_gres);
	return 0;
}

const char *source_rules_refuse_keep(const struct conf_tier *t, const struct dataset *d)
{
	if (!t)
		return "it stays where it is";
	if (dataset_scheme_is_web(d->scheme))
		return "data from the web is not kept";
	if (d->hydrate)
		return "a dataset with hydrate=copy is not kept; leave hydrate=copy out";
	if (!t->max_keep_ms)
		return t->kind == CONF_TIER_MEMORY
			       ? "what is in memory goes with the job (the site's MaxKeep= of "
				 "[tier shm])"
			       : "nothing is kept between jobs there (the site's MaxKeep=)";
	return NULL;
}

static int list_tiers(const struct source_rules_input *in, const struct conf_source *rule,
		      const struct dataset *d, char *list, size_t size, struct error *err)
{
	const char *dest = d->dest ? d->dest : "auto";
	const struct conf_tier *t;
	int r;

	if (!strcmp(dest, "auto")) {
		list_auto_tiers(in, rule, list, size);
		return 0;
	}
	if (!strcmp(dest, "source")) {
		add_word(list, size, dest);
		return 0;
	}
	t = dest[0] == '/' ? source_rules_find_tier(in->conf, &in->expand, dest)
			   : conf_get_tier(in->conf, dest);
	if (t || dest[0] != '/' || !in->permissive) {
		r = source_rules_check_tier(rule, t, in->gres, d, err);
		if (r < 0)
			return r;
		add_word(list, size, t->name);
		/* other tiers of this kind can be used instead */
		if (t->kind == CONF_TIER_MEMORY)
			list_kind(in, rule, false, list, size);
	}
	if (dest[0] == '/')
		add_word(list, size, dest);
	return 0;
}

static uint64_t lower_limit(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

int source_rules_apply(struct source_rules *a, const struct source_rules_input *in,
		       struct dataset *d, struct error *err)
{
	const struct conf_person who = { in->user, in->groups, in->n_groups };
	char tiers[DATASET_MAX_ITEM + 512] = "";
	const struct conf_source *rule;
	int r = 0;

	if (d->scheme == DATASET_SCHEME_CATALOG)
		r = resolve_catalog(in->conf, d, err);
	if (r == 0)
		r = match_rule(in, d, &rule, err);
	if (r == 0)
		r = source_rules_check(rule, d, err);
	if (r == 0)
		r = list_tiers(in, rule, d, tiers, sizeof(tiers), err);
	if (r < 0)
		return r;
	*a = (struct source_rules){
		.rule = strdup(rule->name),
		.rule_match = strdup(rule->match && *rule->match ? rule->match : "/**"),
		.methods = strdup(rule->methods ? rule->methods : "*"),
		.tiers = strdup(tiers),
		.max_bytes = lower_limit(rule->max_bytes, in->conf->max_bytes),
		.max_readers = rule->max_readers,
		.max_rate = rule->max_rate,
	};
	if (conf_get_web(in->conf, rule, d, &who, &a->web) < 0)
		a->web = NULL;
	if (a->web && a->rule && a->rule_match && a->methods && a->tiers)
		return 0;
	source_rules_deinit(a);
	return error_set(err, ENOMEM, "out of memory");
}
