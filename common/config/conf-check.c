/*
 * Checks of single values: each takes a text that is not empty and may replace it by its normal
 * form, so that later comparisons use normal forms. Then checks of the whole configuration: whether
 * the tiers that a rule names exist, and whether a section has its required keys.
 */
#include "common/config/conf-internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/keep/keep.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/url.h"
#include "common/util/strutil.h"

static int replace(char **valuep, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*valuep);
	*valuep = copy;
	return 0;
}

/* Returns whether the pattern consists of wildcards and slashes only. */
static bool matches_all(const char *pattern)
{
	return pattern[strspn(pattern, "/*?")] == '\0';
}

static int check_match_url(char **valuep, struct conf_report *r)
{
	struct error err = ERROR_INIT;
	struct url url;

	if (url_parse(&url, *valuep, &err) < 0)
		return conf_report(r, EINVAL, "", "Match: %s", err.text);
	if (url.path[url.n_path])
		return conf_report(r, EINVAL, "leave it out",
				   "Match: a rule can't have a query (?)");
	if (url_climbs(url.path, url.n_path, true))
		return conf_report(r, EINVAL, "write the path that is meant", "Match has \"..\"");
	for (char *p = *valuep; p < url.host + url.n_host; p++)
		*p = strutil_lower(*p);
	return 0;
}

/* Returns whether a comma or a blank is followed by the beginning of another pattern. */
static bool is_list(const char *value)
{
	const char *next;

	for (const char *p = strpbrk(value, ", \t"); p; p = strpbrk(next, ", \t")) {
		next = p + strspn(p, ", \t");
		if (*next == '/' || url_scheme_of(next) != URL_NONE)
			return true;
	}
	return false;
}

int conf_check_match(char **valuep, struct conf_report *r)
{
	char normal[PATH_MAX];

	if (is_list(*valuep))
		return conf_report(r, EINVAL, "write a [source] section for each",
				   "Match takes one pattern, and \"%s\" has several", *valuep);
	if (strpbrk(*valuep, "[{") && **valuep == '/')
		return conf_report(r, EINVAL, "write a section for each",
				   "Match knows * ? and ** and neither {a,b} nor [..]");
	if (url_scheme_of(*valuep) != URL_NONE)
		return check_match_url(valuep, r);
	if (**valuep != '/')
		return conf_report(r, EINVAL, "begin it with / or http://, https://, s3://",
				   "Match: \"%s\" is neither an absolute path nor an address",
				   *valuep);
	if (url_climbs(*valuep, strlen(*valuep), false))
		return conf_report(r, EINVAL, "write the path that is meant", "Match has \"..\"");
	if (path_normalize(*valuep, normal, sizeof(normal)) < 0)
		return conf_report(r, EINVAL, "make it shorter", "Match is too long");
	if (matches_all(normal))
		return conf_report(r, EINVAL, "name a directory, as in Match=/p/scratch/**",
				   "Match: \"%s\" would allow every file of the node", *valuep);
	return replace(valuep, normal);
}

/* Checks that each word of the list is in `known`. */
static int check_words(const char *key, const char *list, const char *known, struct conf_report *r)
{
	char word[64];
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, list);
		if (!conf_list_has(known, word))
			return conf_report(r, EINVAL, "remove or fix it",
					   "%s: \"%s\" is not known; known are %s", key, word,
					   known);
	}
	return 0;
}

int conf_check_methods(char **valuep, struct conf_report *r)
{
	return strcmp(*valuep, "*") ? check_words("Methods", *valuep, "copy,extract,mount,link", r)
				    : 0;
}

int conf_check_export(char **valuep, struct conf_report *r)
{
	return strcmp(*valuep, "none") ? check_words("Export", *valuep, "apptainer,pyxis", r) : 0;
}

static int check_placeholders(const char *key, const char *value, const char *known,
			      struct conf_report *r)
{
	for (const char *p = strchr(value, '%'); p; p = strchr(p + 2, '%'))
		if (!p[1] || !strchr(known, p[1]))
			return conf_report(
				r, EINVAL, "write %% for a real one",
				"%s: \"%.2s\" is not known; known are %%u %%g %%j %%a %%N", key, p);
	return 0;
}

static int check_absolute(const char *key, char **valuep, struct conf_report *r)
{
	char normal[PATH_MAX];

	if (**valuep != '/' || url_climbs(*valuep, strlen(*valuep), false) ||
	    path_normalize(*valuep, normal, sizeof(normal)) < 0 || !normal[1])
		return conf_report(r, EINVAL, "write one that begins with / and has no \"..\"",
				   "%s: \"%s\" is not an absolute path", key, *valuep);
	return replace(valuep, normal);
}

int conf_check_tier_path(char **valuep, struct conf_report *r)
{
	int ret;

	ret = check_absolute("Path", valuep, r);
	return ret < 0 ? ret : check_placeholders("Path", *valuep, "ugjaN%", r);
}

int conf_check_log_file(char **valuep, struct conf_report *r)
{
	size_t n = strlen(*valuep);

	/* root appends only to files with this suffix (daemon/keeper/privop-outside.c) */
	if (n && (n < 5 || strcmp(*valuep + n - 4, ".log")))
		return conf_report(r, EINVAL, "give it a name that ends in .log",
				   "LogFile: \"%s\" could be another file", *valuep);
	return check_absolute("LogFile", valuep, r);
}

int conf_check_textfile(char **valuep, struct conf_report *r)
{
	size_t n = strlen(*valuep);

	if (n < 5 || strcmp(*valuep + n - 5, ".prom"))
		return conf_report(r, EINVAL, "give it a name that ends in .prom",
				   "Textfile: the node exporter would not read \"%s\"", *valuep);
	return check_absolute("Textfile", valuep, r);
}

int conf_check_program(char **valuep, struct conf_report *r)
{
	if (**valuep && !strchr(*valuep, '/'))
		return 0;
	return check_absolute("Program", valuep, r);
}

int conf_check_namespace(char **valuep, struct conf_report *r)
{
	int ret;

	if (!strcmp(*valuep, "none"))
		return 0;
	ret = check_absolute("JobNamespace", valuep, r);
	return ret < 0 ? ret : check_placeholders("JobNamespace", *valuep, "ugjaN%", r);
}

int conf_check_endpoint(char **valuep, struct conf_report *r)
{
	_cleanup_(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	struct url url;
	size_t n = strlen(*valuep);

	while (n > 0 && (*valuep)[n - 1] == '/')
		(*valuep)[--n] = '\0';
	text = strutil_printf("%s/", *valuep);
	if (!text)
		return -ENOMEM;
	if (url_parse(&url, text, &err) < 0 || url.scheme == URL_S3 || url.path[1])
		return conf_report(r, EINVAL,
				   "write https://HOST or https://HOST:PORT (or http://)",
				   "Endpoint: \"%s\" is not the address of a server%s%s", *valuep,
				   err.text[0] ? ": " : "", err.text);
	return 0;
}

int conf_check_proxy(char **valuep, struct conf_report *r)
{
	_cleanup_(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	struct url url;

	text = strutil_printf("%s/", *valuep);
	if (!text)
		return -ENOMEM;
	if (url_parse(&url, text, &err) < 0 || url.scheme != URL_HTTP || url.path[1])
		return conf_report(r, EINVAL, "write http://HOST:PORT",
				   "Proxy: \"%s\" is not the address of a proxy%s%s", *valuep,
				   err.text[0] ? ": " : "", err.text);
	return 0;
}

int conf_check_ca_file(char **valuep, struct conf_report *r)
{
	return check_absolute("CaFile", valuep, r);
}

int conf_check_token_dir(char **valuep, struct conf_report *r)
{
	return check_absolute("TokenDir", valuep, r);
}

static bool is_network(const char *text)
{
	unsigned char address[16];
	char copy[64], *slash;
	uint32_t bits = 0, max;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, copy, address) == 1)
		max = 32;
	else if (inet_pton(AF_INET6, copy, address) == 1)
		max = 128;
	else
		return false;
	return !slash || (parse_uint32(slash, &bits) == 0 && bits <= max);
}

int conf_check_networks(char **valuep, struct conf_report *r)
{
	char word[128];
	size_t n;

	for (const char *p = *valuep; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, p);
		if (!is_network(word))
			return conf_report(r, EINVAL, "write them as 10.0.0.0/8, fd00::/8",
					   "Networks: \"%s\" is not a network", word);
	}
	return 0;
}

int conf_check_sha256(char **valuep, struct conf_report *r)
{
	size_t n = strspn(*valuep, "0123456789abcdefABCDEF");

	if (n != 64 || (*valuep)[n])
		return conf_report(r, EINVAL, "write what sha256sum prints",
				   "Sha256 is not a digest of 64 hex digits");
	for (char *p = *valuep; *p; p++)
		*p = strutil_lower(*p);
	return 0;
}

int conf_check_dataset_source(char **valuep, struct conf_report *r)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	int ret;

	ret = conf_read_dataset_source(*valuep, &list, &err);
	if (ret == -ENOMEM)
		return ret;
	return ret < 0 ? conf_report(r, EINVAL, "", "Source: %s", err.text) : 0;
}

/* Refuses MaxKeep= for data that would never be removed: the sweep only finds tiers whose path is
 * the same for all jobs. */
static void check_keep(const struct conf_tier *t, struct conf_report *r)
{
	if (t->max_keep_ms > KEEP_MAX_MS)
		conf_report(r, EINVAL, "write at most 168h",
			    "[tier %s]: MaxKeep is more than a week", t->name);
	else if (t->max_keep_ms > 0 && t->kind == CONF_TIER_SHARED)
		conf_report(
			r, EINVAL, "leave it out",
			"[tier %s]: MaxKeep is for disks and memory, a shared tier keeps nothing",
			t->name);
	else if (t->max_keep_ms > 0 && t->kind == CONF_TIER_MEMORY && strcmp(t->name, "shm") != 0)
		conf_report(r, EINVAL, "leave it out",
			    "[tier %s]: in memory only [tier shm] has MaxKeep", t->name);
	else if (t->max_keep_ms > 0 && !*t->path)
		conf_report(r, EINVAL,
			    "mount a tmpfs of a size for it and write Path=, or leave MaxKeep out",
			    "[tier %s]: MaxKeep in memory needs a Path outside of the jobs",
			    t->name);
	else if (t->max_keep_ms > 0 && (t->provided_by_site || strchr(t->path, '%')))
		conf_report(r, EINVAL, "leave it out",
			    "[tier %s]: MaxKeep needs a Path that is the same for all jobs",
			    t->name);
}

/* "auto" and "source" are reserved words of DEST, and "shm" always means memory. */
static void check_tier(const struct conf_tier *t, struct conf_report *r)
{
	if (!strcmp(t->name, "auto") || !strcmp(t->name, "source"))
		conf_report(r, EINVAL, "give it another name",
			    "[tier %s]: the word means something else in DEST", t->name);
	if (!strcmp(t->name, "shm") && t->kind != CONF_TIER_MEMORY)
		conf_report(r, EINVAL, "write Kind=memory or give it another name",
			    "[tier shm] is the node's memory");
	else if (t->kind == CONF_TIER_MEMORY && *t->path && !t->max_keep_ms)
		conf_report(r, EINVAL, "leave it out, or write MaxKeep=",
			    "[tier %s]: Kind=memory has a Path only for what is kept (MaxKeep=)",
			    t->name);
	else if (t->kind != CONF_TIER_MEMORY && !*t->path)
		conf_report(r, EINVAL, "write Path=/DIRECTORY, or Kind=memory",
			    "[tier %s] has no Path", t->name);
	else if (t->kind == CONF_TIER_MEMORY && t->provided_by_site)
		conf_report(r, EINVAL, "leave it out",
			    "[tier %s]: Kind=memory can't be Provided=site", t->name);
	else
		check_keep(t, r);
}

static void check_source_tiers(const struct conf *conf, const struct conf_source *s,
			       struct conf_report *r)
{
	const char *list = s->tiers;
	char word[64];
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, list);
		if (strcmp(word, "source") && !conf_get_tier(conf, word))
			conf_report(r, EINVAL, "add the section, or fix the name",
				    "[source %s]: Tiers names %s, and there is no [tier %s]",
				    s->name, word, word);
	}
}

static void check_source(const struct conf *conf, const struct conf_source *s,
			 struct conf_report *r)
{
	bool is_s3 = url_scheme_of(s->match) == URL_S3;

	if (!*s->match) {
		conf_report(r, EINVAL, "write Match=/DIRECTORY/** or Match=https://HOST/**",
			    "[source %s] has no Match", s->name);
		return;
	}
	check_source_tiers(conf, s, r);
	if (s->visible_on == CONF_VISIBLE_MOVER && !*s->mover_partition)
		conf_report(r, EINVAL, "write MoverPartition=PARTITION",
			    "[source %s]: VisibleOn=mover needs MoverPartition", s->name);
	if (!is_s3 && (*s->endpoint || *s->region))
		conf_report(r, EINVAL, "leave them out or write Match=s3://BUCKET/**",
			    "[source %s]: Endpoint and Region are for s3:// alone", s->name);
	if (url_scheme_of(s->match) == URL_NONE && (*s->networks || *s->proxy || *s->ca_file))
		conf_report(r, EINVAL, "leave them out or write Match=https://HOST/**",
			    "[source %s]: Networks, Proxy and CaFile are for addresses alone",
			    s->name);
}

void conf_check_whole(const struct conf *conf, const struct conf_places *places,
		      struct conf_report *r)
{
	for (size_t i = 0; i < places->n_items; i++) {
		const struct conf_place *p = &places->items[i];

		if (p->bad || p->key)
			continue;
		r->file = p->file;
		r->line = p->line;
		if (!strcmp(p->section->name, "source"))
			check_source(conf, &conf->sources[p->index], r);
		else if (!strcmp(p->section->name, "tier"))
			check_tier(&conf->tiers[p->index], r);
		else if (!*conf->datasets[p->index].source)
			conf_report(r, EINVAL, "write Source=PATH", "[dataset %s] has no Source",
				    conf->datasets[p->index].name);
	}
	r->line = 0;
}
