/*
 * The part of the site's rules that a worker needs to follow a redirect: all rules about addresses
 * that admit this user, the rule of the dataset first. For a dataset without a checksum, rules that
 * require one are left out, so that a redirect cannot lead to data that the user may not name.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/url.h"

/* Prints the rules for an address that the built-in rule "own" allows: the user's host with any
 * address, and public hosts. */
static void print_own(FILE *f, const struct dataset *d)
{
	const char *path = url_find_path(d->source);

	if (path)
		fprintf(f, "allow\t%.*s/**\t0.0.0.0/0,::/0\n", (int)(path - d->source), d->source);
	fputs("allow\t*\n", f);
}

static void print_rule(FILE *f, const struct conf_source *s)
{
	if (url_scheme_of(s->match) == URL_HTTP || url_scheme_of(s->match) == URL_HTTPS)
		fprintf(f, "allow\t%s%s%s\n", s->match, *s->networks ? "\t" : "", s->networks);
}

static void print_others(FILE *f, const struct conf *conf, const struct conf_source *rule,
			 const struct dataset *d, const struct conf_person *who)
{
	for (size_t i = 0; i < conf->n_sources && ftell(f) < CONF_MAX_WEB; i++) {
		const struct conf_source *s = &conf->sources[i];

		if (s == rule || s->visible_on == CONF_VISIBLE_MOVER ||
		    (s->checksum_required && d->verify != DATASET_VERIFY_SHA256) ||
		    !conf_source_admits(s, who->user, who->groups, who->n_groups))
			continue;
		print_rule(f, s);
	}
}

static void print_if(FILE *f, const char *word, const char *value)
{
	if (*value)
		fprintf(f, "%s\t%s\n", word, value);
}

int conf_get_web(const struct conf *conf, const struct conf_source *rule, const struct dataset *d,
		 const struct conf_person *who, char **textp)
{
	char *text = NULL;
	size_t size;
	FILE *f;

	if (!dataset_scheme_is_web(d->scheme)) {
		*textp = strdup("");
		return *textp ? 0 : -ENOMEM;
	}
	f = open_memstream(&text, &size);
	if (!f)
		return -ENOMEM;
	if (rule == &conf->own) {
		print_own(f, d);
	} else {
		print_rule(f, rule);
		print_others(f, conf, rule, d, who);
		print_if(f, "proxy", rule->proxy);
		print_if(f, "cafile", rule->ca_file);
		print_if(f, "networks", rule->networks);
		print_if(f, "endpoint", rule->endpoint);
		print_if(f, "region", rule->region);
		print_if(f, "anonymous", rule->credentials_user ? "" : "yes");
	}
	if (ferror(f) | fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*textp = text;
	return 0;
}
