/*
 * The part of the site's rules that a worker needs to follow a redirect: all rules about addresses
 * that admit this user, the rule of the dataset first. For a dataset without a checksum, rules that
 * require one are left out, so that a redirect cannot lead to data that the user may not name.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/url.h"

/* Prints the rule for an address that the built-in rule "own" allows: the user's host with any
 * address. */
static void print_own_host(FILE *f, const struct dataset *d)
{
	const char *path = url_find_path(d->source);

	if (path)
		fprintf(f, "allow\t%.*s/**\t0.0.0.0/0,::/0\n", (int)(path - d->source), d->source);
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

static void print_server(FILE *f, const struct conf_source *s)
{
	print_if(f, "proxy", s->proxy);
	print_if(f, "cafile", s->ca_file);
	print_if(f, "networks", s->networks);
	print_if(f, "endpoint", s->endpoint);
	print_if(f, "region", s->region);
	print_if(f, "anonymous", s->credentials_user ? "" : "yes");
}

/* Returns the rule that names the server of an address that the rule "own" allows: the first one
 * that admits this user, so that the user's own run asks the server that a job asks. If none does,
 * the first one that covers the address. NULL: there is none. */
static const struct conf_source *find_server(const struct conf *conf, const struct dataset *d,
					     const struct conf_person *who)
{
	const struct conf_source *first = NULL;

	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *s = &conf->sources[i];

		if (!conf_source_covers(s, d->source))
			continue;
		if (conf_source_admits(s, who->user, who->groups, who->n_groups))
			return s;
		if (!first)
			first = s;
	}
	return first;
}

/* Prints what the rule "own" allows: each public server, and the
 * hosts of the site in the networks that its rules name. */
static void print_own(FILE *f, const struct conf *conf, const struct dataset *d,
		      const struct conf_person *who)
{
	const struct conf_source *server = find_server(conf, d, who);

	print_own_host(f, d);
	print_others(f, conf, NULL, d, who);
	fputs("allow\t*\n", f);
	if (server)
		print_server(f, server);
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
		print_own(f, conf, d, who);
	} else {
		print_rule(f, rule);
		print_others(f, conf, rule, d, who);
		print_server(f, rule);
	}
	if (ferror(f) | fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*textp = text;
	return 0;
}
