/*
 * Rules can only allow, so a comparison that is too strict is safe: a path is compared in its
 * normal form by components, a pattern of the user's as the text it is, and an address that could
 * be read in two ways ("..", "%2e%2e") is refused.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/slurm/gres.h"
#include "common/util/path.h"
#include "common/util/url.h"
#include "common/util/strutil.h"

#define MAX_SHOWN 6 /* rules named in a refusal */

bool conf_list_has(const char *list, const char *word)
{
	size_t len = strlen(word), n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == len && n > 0 && !memcmp(list, word, n))
			return true;
	}
	return false;
}

/* Finds the first partition in a job's list that has no staging, and copies it to word. Returns
 * false if all have staging. */
static bool find_closed_partition(const struct conf *conf, const char *partitions, char *word,
				  size_t size)
{
	size_t n;

	for (; *partitions; partitions += n + (partitions[n] == ',')) {
		n = strcspn(partitions, ",");
		snprintf(word, size, "%.*s", (int)n, partitions);
		if (n > 0 && !conf_list_has(conf->partitions, word))
			return true;
	}
	return false;
}

static int check_partitions(const struct conf *conf, const char *partitions, struct error *err)
{
	char word[256];

	if (!*conf->partitions || !find_closed_partition(conf, partitions, word, sizeof(word)))
		return 0;
	if (strchr(partitions, ','))
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "the job may start in partition %s, which has no staging; with "
				  "--stage-data use only %s",
				  word, conf->partitions);
	return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
			  "partition %s has no staging; use one of %s", word, conf->partitions);
}

bool conf_run_is_free(const struct conf *conf)
{
	return !conf->from_file || !conf->run_rules;
}

int conf_admit_run(const struct conf *conf, const char *user, const char *partition,
		   struct error *err)
{
	struct conf free_for_all = *conf;

	if (!conf_run_is_free(conf))
		return conf_admit(conf, user, partition, err);
	free_for_all.allow_users = (char *)"";
	return conf_admit(&free_for_all, user, NULL, err);
}

int conf_admit(const struct conf *conf, const char *user, const char *partition, struct error *err)
{
	if (conf->disabled_text)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "staging is switched off by the site%s%s",
				  *conf->disabled_text ? ": " : "; ask its administrators",
				  conf->disabled_text);
	if (!conf->enabled)
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"staging is switched off by the site (Enabled=no of [daemon]); ask "
			"its administrators");
	if (*conf->allow_users && !conf_list_has(conf->allow_users, user))
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "user %s may not stage here (AllowUsers= of [daemon]); ask the "
				  "site's administrators",
				  user);
	return partition ? check_partitions(conf, partition, err) : 0;
}

static bool match_path(const char *pattern, const char *source)
{
	char normal[PATH_MAX];

	return path_normalize(source, normal, sizeof(normal)) == 0 && path_match(pattern, normal);
}

bool conf_source_covers(const struct conf_source *s, const char *source)
{
	bool is_url = url_scheme_of(source) != URL_NONE;

	if (is_url != (url_scheme_of(s->match) != URL_NONE))
		return false;
	return is_url ? url_match(s->match, source) : match_path(s->match, source);
}

bool conf_source_admits(const struct conf_source *s, const char *user, const char *const *groups,
			size_t n_groups)
{
	if (conf_list_has(s->deny_users, user))
		return false;
	if (!*s->allow_users && !*s->allow_groups)
		return true;
	if (conf_list_has(s->allow_users, user))
		return true;
	for (size_t i = 0; i < n_groups; i++)
		if (conf_list_has(s->allow_groups, groups[i]))
			return true;
	return false;
}

/* Returns the length of the part of source that a message may show: without the query string. */
static int shown_length(const char *source)
{
	size_t n = url_scheme_of(source) ? strcspn(source, "?") : strlen(source);

	return n > 200 ? 200 : (int)n;
}

static int refuse_user(const struct conf_source *s, const char *source, const char *user,
		       struct error *err)
{
	if (conf_list_has(s->deny_users, user))
		return error_exit(
			err, STAGE_EXIT_REFUSED, EPERM,
			"%.*s: rule %s of the site does not admit user %s (DenyUsers); ask "
			"the site's administrators",
			shown_length(source), source, s->name, user);
	return error_exit(
		err, STAGE_EXIT_REFUSED, EPERM,
		"%.*s: rule %s of the site does not admit user %s; it is for %s%s%s%s%s, so "
		"ask to become one of them",
		shown_length(source), source, s->name, user, *s->allow_users ? "users " : "",
		s->allow_users, *s->allow_users && *s->allow_groups ? " and " : "",
		*s->allow_groups ? "members of " : "", s->allow_groups);
}

bool conf_source_is_alone(const struct conf *conf, const struct conf_source *s)
{
	char inside[PATH_MAX];

	if (*s->match != '/' || path_is_pattern(s->match) ||
	    snprintf(inside, sizeof(inside), "%s/x", s->match) >= (int)sizeof(inside))
		return false;
	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *other = &conf->sources[i];

		if (conf_source_covers(other, inside) || (path_is_beneath(other->match, s->match) &&
							  strcmp(other->match, s->match) != 0))
			return false;
	}
	return true;
}

/* Returns a rule for this user that matches /a only, and that perhaps was meant to include
 * everything below /a; NULL: none. */
static const char *find_above(const struct conf *conf, const char *source,
			      const struct conf_person *who)
{
	char normal[PATH_MAX];

	if (url_scheme_of(source) || path_normalize(source, normal, sizeof(normal)) < 0)
		return NULL;
	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *s = &conf->sources[i];

		if (path_is_beneath(normal, s->match) && conf_source_is_alone(conf, s) &&
		    conf_source_admits(s, who->user, who->groups, who->n_groups))
			return s->match;
	}
	return NULL;
}

static int refuse_unmatched(const struct conf *conf, const char *source,
			    const struct conf_person *who, struct error *err)
{
	const char *above = find_above(conf, source, who);
	_cleanup_(freep) char *allowed = NULL;
	size_t size;
	FILE *f;

	if (conf->n_sources == 0)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "%.*s: this site allows no source; an administrator has to add a "
				  "[source] section to %s",
				  shown_length(source), source, conf->path);
	if (above)
		return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
				  "%.*s: no rule of the site matches; %.200s may be staged as a "
				  "whole, and nothing in it by itself; ask the site's "
				  "administrators for Match=%.200s/**",
				  shown_length(source), source, above, above);
	f = open_memstream(&allowed, &size);
	if (!f)
		return error_errno(err, ENOMEM, "rules");
	for (size_t i = 0; i < conf->n_sources && i < MAX_SHOWN; i++)
		fprintf(f, "%s%.80s", i ? ", " : "", conf->sources[i].match);
	if (conf->n_sources > MAX_SHOWN)
		fprintf(f, " and %zu more", conf->n_sources - MAX_SHOWN);
	if (ferror(f) | fclose(f))
		return error_errno(err, ENOMEM, "rules");
	return error_exit(
		err, STAGE_EXIT_REFUSED, EPERM,
		"%.*s: no rule of the site matches; allowed are: %s; move the data there or ask "
		"the site's administrators for a rule",
		shown_length(source), source, allowed);
}

int conf_match(const struct conf *conf, const char *source, const char *user,
	       const char *const *groups, size_t n_groups, bool permissive,
	       const struct conf_source **sourcep, struct error *err)
{
	const struct conf_person who = { user, groups, n_groups };
	const struct conf_source *refused = NULL, *s;

	if (permissive) {
		*sourcep = &conf->own;
		return 0;
	}
	for (size_t i = 0; i < conf->n_sources; i++) {
		s = &conf->sources[i];
		if (!conf_source_covers(s, source))
			continue;
		if (conf_source_admits(s, user, groups, n_groups)) {
			*sourcep = s;
			return 0;
		}
		if (!refused)
			refused = s;
	}
	return refused ? refuse_user(refused, source, user, err)
		       : refuse_unmatched(conf, source, &who, err);
}

bool conf_source_allows_tier(const struct conf_source *s, const char *tier)
{
	return !*s->tiers || !strcmp(tier, "source") || conf_list_has(s->tiers, tier);
}

bool conf_tier_is_for(const struct conf_tier *t, const char *gres)
{
	return !*t->require_gres || (gres && gres_has(gres, t->require_gres));
}

bool conf_source_allows_method(const struct conf_source *s, const char *method)
{
	return !strcmp(s->methods, "*") || conf_list_has(s->methods, method);
}

static char *name_group(gid_t gid)
{
	const struct group *gr = getgrgid(gid);

	return gr ? strdup(gr->gr_name) : strutil_printf("%u", (unsigned)gid);
}

int conf_get_own_groups(char ***groupsp, size_t *n_groupsp)
{
	const int n = getgroups(0, NULL);
	_cleanup_(freep) gid_t *gids = calloc(n > 0 ? (size_t)n + 1 : 1, sizeof(*gids));
	char **groups = calloc(n > 0 ? (size_t)n + 1 : 1, sizeof(*groups));
	const int n_more = gids && n > 0 ? getgroups(n, gids + 1) : 0;
	size_t n_groups = 0;

	if (!gids || !groups) {
		free(groups);
		return -ENOMEM;
	}
	gids[0] = getegid();
	for (int i = 0; i <= n_more || i == 0; i++) {
		groups[n_groups] = name_group(gids[i]);
		n_groups += groups[n_groups] != NULL;
	}
	*groupsp = groups;
	*n_groupsp = n_groups;
	return 0;
}

void conf_free_groups(char **groups, size_t n_groups)
{
	for (size_t i = 0; i < n_groups; i++)
		free(groups[i]);
	free(groups);
}
