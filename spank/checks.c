#include "spank/checks.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/dataset/dataset.h"
#include "common/policy/source-rules.h"
#include "common/policy/memory-limits.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "spank/client-args.h"
#include "spank/default-partition.h"
#include "spank/say.h"
#include "spank/source-check.h"

/* --- who asks ------------------------------------------------------------------------------ */

void checks_get_user(struct checks_user *u)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *home = getenv("HOME");

	*u = (struct checks_user){ 0 };
	snprintf(u->name, sizeof(u->name), "%s", pw ? pw->pw_name : "");
	if (!pw)
		snprintf(u->name, sizeof(u->name), "%u", (unsigned)getuid());
	if (!home)
		home = pw ? pw->pw_dir : "";
	snprintf(u->home, sizeof(u->home), "%s", home);
	(void)conf_get_own_groups(&u->groups, &u->n_groups);
}

void checks_user_deinit(struct checks_user *u)
{
	conf_free_groups(u->groups, u->n_groups);
}

/* --- checks -------------------------------------------------------------------------------- */

/* Checks the default partition, for a job that names none. If this machine does not know the
 * default partition, the nodes check it. */
static void check_default_partition(const struct conf *conf)
{
	char name[256];

	if (*conf->partitions && default_partition_get(name, sizeof(name)) == 0 &&
	    !conf_list_has(conf->partitions, name))
		say_refuse("the job goes to the default partition %s, which has no staging; submit "
			   "with `-p %s`",
			   name, conf->partitions);
}

static void check_admitted(const struct conf *conf, const char *user,
			   const struct client_args *args)
{
	struct error err = ERROR_INIT;

	if (conf_admit(conf, user, args->partition, &err) < 0)
		say_refuse("%s", err.text);
	if (!*args->partition && !args->partition_by_other)
		check_default_partition(conf);
}

/* Checks an absolute DEST. The path of a tier is known here only up to its first placeholder. */
static void check_dest_path(const struct conf *conf, const struct dataset *d)
{
	char places[1024] = "";
	const char *base = strrchr(d->source, '/');
	char hint[512] = "";
	size_t n = 0;

	for (size_t i = 0; i < conf->n_tiers; i++) {
		const struct conf_tier *t = &conf->tiers[i];
		size_t fixed = strcspn(t->path, "%");

		if (!fixed)
			continue;
		if (!strncmp(d->dest, t->path, fixed) &&
		    (t->path[fixed] || !d->dest[fixed] || d->dest[fixed] == '/'))
			return;
		if (n < sizeof(places))
			n += (size_t)snprintf(places + n, sizeof(places) - n, "%s[tier %s] %s",
					      n ? ", " : "", t->name, t->path);
	}
	/* for a value like "train:/p/x.tar" */
	if (!d->name_given && base && dataset_name_is_legal(base + 1, strlen(base + 1)))
		snprintf(hint, sizeof(hint), ". If %s is the NAME, write '%s=%s'", base + 1,
			 base + 1, d->dest);
	say_refuse("%s: DEST %s is below no tier of this site (%s); leave DEST out, or write shm "
		   "or ssd%s",
		   d->name, d->dest, n ? places : "it has none with a path", hint);
}

/* Returns the reason why keep= has no effect; NULL: it has one. A named tier must support keep=;
 * with auto, one of the possible tiers must. */
static const char *refuse_keep(const struct conf *conf, const struct dataset *d,
			       const struct conf_source *rule)
{
	if (!strcmp(d->dest, "source") || d->method == DATASET_METHOD_LINK)
		return source_rules_refuse_keep(NULL, d);
	if (d->dest[0] == '/')
		return NULL; /* the tier of a path is known only on the node */
	if (strcmp(d->dest, "auto"))
		return source_rules_refuse_keep(conf_get_tier(conf, d->dest), d);
	for (size_t i = 0; i < conf->n_tiers; i++) {
		const struct conf_tier *t = &conf->tiers[i];

		if (t->kind != CONF_TIER_SHARED && conf_source_allows_tier(rule, t->name) &&
		    !source_rules_refuse_keep(t, d))
			return NULL;
	}
	return "nothing is kept between jobs here (no tier of this site has MaxKeep=)";
}

/* Warns about options that will have no effect. The job can run without them. */
static void warn_of_options(const struct conf *conf, const struct dataset *d,
			    const struct conf_source *rule)
{
	const char *why = d->keep_ms ? refuse_keep(conf, d, rule) : NULL;

	if (why)
		say_warn("%s: keep= has no effect: %s", d->name, why);
	if (d->method == DATASET_METHOD_LINK && strcmp(d->dest, "auto") &&
	    strcmp(d->dest, "source"))
		say_warn("%s: DEST %s has no effect: method=link leaves the data where it is",
			 d->name, d->dest);
}

/* Warns if no keys are found. The nodes read the same files, but of the variables they have only
 * those of this process. */
static void warn_of_keys(const struct dataset *d, const struct conf_source *rule,
			 const struct checks_user *u)
{
	static const char *const files[] = { "credentials", "config" };
	char path[sizeof(u->home) + sizeof("/.aws/credentials")];

	if (d->scheme != DATASET_SCHEME_S3 || !rule->credentials_user || d->env_keys)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/.aws/%s", u->home, files[i]);
		if (access(path, F_OK) == 0)
			return;
	}
	say_warn("%s: no keys for S3 are found: write ~/.aws/credentials, or set AWS_ACCESS_KEY_ID "
		 "and AWS_SECRET_ACCESS_KEY before you submit",
		 d->name);
}

/* Checks with the login node's configuration. Each node checks again with its own. */
static void check_by_rule(const struct conf *conf, const struct dataset *d,
			  const struct conf_source *rule, const char *gres)
{
	struct error err = ERROR_INIT;

	if (dataset_scheme_is_web(d->scheme) && !strcmp(d->dest, "source"))
		say_refuse("%s: data on the web can't be used where it is; leave DEST out",
			   d->name);
	if (source_rules_check(rule, d, &err) < 0)
		say_refuse("%s: %s", d->name, err.text);
	if (d->dest[0] == '/')
		check_dest_path(conf, d);
	else if (strcmp(d->dest, "auto") && strcmp(d->dest, "source") &&
		 source_rules_check_tier(rule, conf_get_tier(conf, d->dest), gres, d, &err) < 0)
		say_refuse("%s: %s", d->name, err.text);
	warn_of_options(conf, d, rule);
}

/* Checks an item. A catalogue name is resolved in a copy: the list keeps the name, which each node
 * resolves with its own configuration. */
static void check_item(const struct conf *conf, const struct dataset *item,
		       const struct checks_user *u, const char *gres)
{
	_cleanup_(freep) char *source = NULL;
	struct error err = ERROR_INIT;
	const struct conf_source *rule;
	struct dataset d = *item;
	int r;

	source = d.source = strdup(item->source);
	r = !source ? error_errno(&err, ENOMEM, "@%s", item->source)
		    : conf_resolve_dataset(conf, &d, &err);
	source = d.source;
	if (r == 0)
		r = conf_match(conf, d.source, u->name, (const char *const *)u->groups, u->n_groups,
			       false, &rule, &err);
	if (r < 0)
		say_refuse("%s: %s", d.name, err.text);
	check_by_rule(conf, &d, rule, gres);
	warn_of_keys(&d, rule, u);
}

static void check_rules(const struct conf *conf, const struct dataset_list *list,
			const struct checks_user *u, const char *gres)
{
	if (list->n_items > conf->max_items)
		say_refuse("%zu datasets, this site allows %u in a job; use a pattern, a list "
			   "(@@FILE) or an archive",
			   list->n_items, (unsigned)conf->max_items);
	for (size_t i = 0; i < list->n_items; i++) {
		/* the names in a list are known only on the node */
		if (list->items[i].scheme != DATASET_SCHEME_LIST)
			check_item(conf, &list->items[i], u, gres);
	}
}

struct source_checks {
	const struct conf *conf;
	struct dataset_list *list;
	const char *value; /* as the user gave it */
	const struct client_args *args;
};

static const char *get_hint(const struct source_checks *l, const struct dataset *d, char *buf,
			    size_t size)
{
	_cleanup_(freep) char *cwd = getcwd(NULL, 0);

	dataset_slip_hint(l->value, (size_t)(d - l->list->items), buf, size);
	return *buf || !cwd ? buf : dataset_name_hint(d, l->value, cwd, buf, size);
}

static const char *describe_fault(int errnum)
{
	switch (errnum) {
	case EACCES:
		return "can't be entered";
	case ENOENT:
		return "is not there";
	case ENOTDIR:
		return "is no directory";
	default:
		return "fails";
	}
}

/* Describes the error and its place: the path itself, or a directory above it. */
static void describe(const char *path, size_t n_fault, int errnum, char *buf, size_t size)
{
	const char *text = errnum == EMEDIUMTYPE ? "neither a file nor a directory"
			   : errnum == ENOLINK	 ? "a link to what is not there"
						 : strerror(errnum);

	if (n_fault < strlen(path))
		snprintf(buf, size, "%s: %s (%.*s %s)", path, text, (int)n_fault, path,
			 describe_fault(errnum));
	else
		snprintf(buf, size, "%s: %s", path, text);
}

/* Returns the upper limit of memory for datasets, for a job with this much memory on any node. */
static uint64_t get_most(const struct source_checks *l, enum memory_limit *limitp)
{
	struct memory_facts f;

	memory_facts_init(&f, l->conf, conf_get_tier(l->conf, "shm"));
	f.job_limit = l->args->memory;
	return memory_limits_get_have(&f, limitp);
}

/* Warns about a file that cannot fit into memory. An archive does not become smaller when it is
 * unpacked. */
static void check_memory(const struct source_checks *l, const struct dataset *d, uint64_t bytes)
{
	bool selects = d->n_include || d->n_exclude || d->subdir;
	char size[PARSE_SIZE_TEXT], most[PARSE_SIZE_TEXT];
	enum memory_limit limit;
	uint64_t have;

	if (!l->args->memory || strcmp(d->dest, "shm") || d->method == DATASET_METHOD_LINK ||
	    selects)
		return;
	have = get_most(l, &limit);
	if (bytes > have)
		say_warn("%s: %s has %s, but datasets get at most %s in memory (shm): %s; "
			 "%swrite another DEST",
			 d->name, d->source, size_to_string(bytes, size),
			 size_to_string(have, most), memory_limit_to_string(limit),
			 memory_limit_is_of_job(limit) ? "ask for more --mem, or " : "");
}

static void refuse_pattern(const struct source_checks *l, const struct dataset *d, int errnum)
{
	const char *text =
		errnum == SOURCE_CHECK_FITS_NONE
			? "no file fits this pattern"
			: "of the names that the braces make, the first or the last is not there";

	if (l->args->starts_later)
		say_warn("%s: %s: %s; it has to be there when the job starts", d->name, d->source,
			 text);
	else
		say_refuse("%s: %s: %s; check it with ls", d->name, d->source, text);
}

static void report_pattern(const struct source_checks *l, struct dataset *d, int errnum)
{
	if (errnum != SOURCE_CHECK_IS_NAME && errnum != SOURCE_CHECK_IS_NAME_OF_MANY) {
		refuse_pattern(l, d, errnum);
		return;
	}
	if (errnum == SOURCE_CHECK_IS_NAME_OF_MANY)
		say_warn("%s: %s is staged as the file of this name. As a "
			 "pattern it fits other files, too: rename the "
			 "file to stage them",
			 d->name, d->source);
	dataset_take_literally(d);
}

static void report_source(void *arg, const struct source_check_result *result)
{
	const struct source_checks *l = arg;
	struct dataset *d = &l->list->items[result->index];
	const char *name = d->name;
	char hint[1024], text[2 * PATH_MAX + 128];

	if (result->errnum == 0) {
		check_memory(l, d, result->bytes);
		return;
	}
	if (result->errnum >= SOURCE_CHECK_FITS_NONE) {
		report_pattern(l, d, result->errnum);
		return;
	}
	describe(result->path, result->n_fault, result->errnum, text, sizeof(text));
	if (l->args->starts_later)
		say_warn("%s: %s; it has to be there when the job starts", name, text);
	else if (result->errnum == EACCES)
		say_refuse(
			"%s: %s; it is read as you: ask its owner for the right (ls -ld shows what "
			"there is), or name a copy that you may read",
			name, text);
	else
		say_refuse("%s: %s; check the path, and that it can be seen from here%s", name,
			   text, get_hint(l, d, hint, sizeof(hint)));
}

static void check_sources(const struct conf *conf, struct dataset_list *list, const char *value,
			  const struct client_args *args)
{
	struct source_checks l = { conf, list, value, args };
	size_t index;
	int r;

	r = source_check(list, SOURCE_CHECK_LIMIT_MS, &index, report_source, &l);
	if (r == SOURCE_CHECK_HANGS)
		say_warn("%s: %s does not answer; submitted without a look at it",
			 list->items[index].name, list->items[index].source);
	else if (r < 0)
		say_warn("submitted without a look at the sources: %s", strerror(-r));
}

void checks_run(const struct conf *conf, struct dataset_list *list, const char *value,
		const struct client_args *args, const struct checks_user *u)
{
	check_admitted(conf, u->name, args);
	check_rules(conf, list, u, args->gres);
	check_sources(conf, list, value, args);
}
