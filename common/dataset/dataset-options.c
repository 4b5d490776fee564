/*
 * Each option is a row: how it is parsed, how it is printed if it is not the default, and what to
 * write instead of an invalid value.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/strutil.h"

#define MAX_STRIP 128
#define MAX_THREADS 1024

static const char *const methods[] = { "auto", "copy", "extract", "mount", "link", NULL };
static const char *const onfails[] = { "fail", "source", "ignore", NULL };
static const char *const shards[] = { "all", "node", "node-even", NULL };
static const char *const hydrates[] = { "no", "copy", NULL };
static const char *const links[] = { "keep", "follow", NULL };

/* Readers return 0, or -EINVAL. Then the row's `values` is used for the error, unless the reader
 * has set err. */
static int read_word(const char *const *words, const char *value, unsigned *ip)
{
	for (unsigned i = 0; words[i]; i++)
		if (!strcmp(words[i], value)) {
			*ip = i;
			return 0;
		}
	return -EINVAL;
}

static int read_method(struct dataset *d, char *value, struct error *err)
{
	return dataset_method_from_string(value, &d->method);
}

static int read_onfail(struct dataset *d, char *value, struct error *err)
{
	unsigned i;

	if (read_word(onfails, value, &i) < 0)
		return -EINVAL;
	d->onfail = (enum dataset_onfail)i;
	return 0;
}

static int read_number(const char *value, uint32_t max, uint32_t *np)
{
	uint32_t n;

	if (parse_uint32(value, &n) < 0 || n == 0 || n > max)
		return -EINVAL;
	*np = n;
	return 0;
}

static int read_strip(struct dataset *d, char *value, struct error *err)
{
	if (!strcmp(value, "0"))
		return 0;
	return read_number(value, MAX_STRIP, &d->strip);
}

static int read_threads(struct dataset *d, char *value, struct error *err)
{
	return read_number(value, MAX_THREADS, &d->threads);
}

static int read_nested(struct dataset *d, char *value, struct error *err)
{
	d->nested = true;
	return 0;
}

static int read_shard(struct dataset *d, char *value, struct error *err)
{
	unsigned i;

	if (read_word(shards, value, &i) < 0)
		return -EINVAL;
	d->shard = (enum dataset_shard)i;
	return 0;
}

static int read_hydrate(struct dataset *d, char *value, struct error *err)
{
	unsigned i;

	if (read_word(hydrates, value, &i) < 0)
		return -EINVAL;
	d->hydrate = i == 1;
	return 0;
}

static int read_links(struct dataset *d, char *value, struct error *err)
{
	unsigned i;

	if (read_word(links, value, &i) < 0)
		return -EINVAL;
	d->follow = i == 1;
	return 0;
}

static int read_time(const char *value, uint64_t *msp)
{
	uint64_t ms;

	if (parse_duration(value, &ms) < 0 || ms == 0)
		return -EINVAL;
	*msp = ms;
	return 0;
}

static int read_keep(struct dataset *d, char *value, struct error *err)
{
	if (!strcmp(value, "no"))
		return 0;
	return read_time(value, &d->keep_ms);
}

static int read_timeout(struct dataset *d, char *value, struct error *err)
{
	return read_time(value, &d->timeout_ms);
}

static int read_stall(struct dataset *d, char *value, struct error *err)
{
	return read_time(value, &d->stall_ms);
}

static int read_profile(struct dataset *d, char *value, struct error *err)
{
	return dataset_profile_read(d, value);
}

static int read_keys(struct dataset *d, char *value, struct error *err)
{
	if (strcmp(value, "auto") && strcmp(value, "env"))
		return -EINVAL;
	d->env_keys = *value == 'e';
	return 0;
}

static int read_max(struct dataset *d, char *value, struct error *err)
{
	uint64_t size;

	if (parse_size(value, &size) < 0 || size == 0)
		return -EINVAL;
	d->max_size = size;
	return 0;
}

/* Writers: return the value to print; NULL for the default, which is not printed. */
static const char *word_of(const char *const *words, unsigned i)
{
	return i > 0 ? words[i] : NULL;
}

static const char *method_word(const struct dataset *d, char *buf)
{
	return word_of(methods, d->method);
}

static const char *onfail_word(const struct dataset *d, char *buf)
{
	return word_of(onfails, d->onfail);
}

static const char *verify_word(const struct dataset *d, char *buf)
{
	if (d->verify == DATASET_VERIFY_SIZE)
		return NULL;
	if (d->verify == DATASET_VERIFY_NONE)
		return "none";
	snprintf(buf, 80, "sha256:%s", d->sha256);
	return buf;
}

static const char *number_word(uint64_t n, const char *unit, char *buf)
{
	if (n == 0)
		return NULL;
	snprintf(buf, 80, "%" PRIu64 "%s", n, unit);
	return buf;
}

/* Prints whole seconds in seconds, so that 90 is not printed as 90000ms. */
static const char *time_word(uint64_t ms, char *buf)
{
	return ms % 1000 ? number_word(ms, "ms", buf) : number_word(ms / 1000, "s", buf);
}

static const char *strip_word(const struct dataset *d, char *buf)
{
	return number_word(d->strip, "", buf);
}

static const char *subdir_word(const struct dataset *d, char *buf)
{
	return d->subdir;
}

static const char *nested_word(const struct dataset *d, char *buf)
{
	return d->nested ? "" : NULL;
}

static const char *shard_word(const struct dataset *d, char *buf)
{
	return word_of(shards, d->shard);
}

static const char *hydrate_word(const struct dataset *d, char *buf)
{
	return word_of(hydrates, d->hydrate);
}

static const char *links_word(const struct dataset *d, char *buf)
{
	return word_of(links, d->follow);
}

static const char *keep_word(const struct dataset *d, char *buf)
{
	return time_word(d->keep_ms, buf);
}

static const char *max_word(const struct dataset *d, char *buf)
{
	return number_word(d->max_size, "", buf);
}

static const char *timeout_word(const struct dataset *d, char *buf)
{
	return time_word(d->timeout_ms, buf);
}

static const char *stall_word(const struct dataset *d, char *buf)
{
	return time_word(d->stall_ms, buf);
}

static const char *threads_word(const struct dataset *d, char *buf)
{
	return number_word(d->threads, "", buf);
}

static const char *profile_word(const struct dataset *d, char *buf)
{
	return *d->profile ? d->profile : NULL;
}

static const char *keys_word(const struct dataset *d, char *buf)
{
	return d->env_keys ? "env" : NULL;
}

/* clang-format off */
static const struct option {
	const char *name;
	const char *values; /* NULL: a flag */
	int (*read)(struct dataset *d, char *value, struct error *err);
	const char *(*word)(const struct dataset *d, char *buf); /* NULL: the option may be
								  * repeated */
} options[] = {
	{ "method",   "auto, copy, extract, mount or link",            read_method,                 method_word },
	{ "onfail",   "fail, source or ignore",                        read_onfail,                 onfail_word },
	{ "verify",   "size, none or sha256:DIGEST",                   dataset_option_read_verify,  verify_word },
	{ "strip",    "a number from 0 to 128",                        read_strip,                  strip_word },
	{ "subdir",   "a path inside the source",                      dataset_option_read_subdir,  subdir_word },
	{ "include",  "a pattern like *.{jpg,png}",                    dataset_option_read_include, NULL },
	{ "exclude",  "a pattern like *.{jpg,png}",                    dataset_option_read_exclude, NULL },
	{ "nested",   NULL,                                            read_nested,                 nested_word },
	{ "shard",    "all, node or node-even",                        read_shard,                  shard_word },
	{ "hydrate",  "no or copy",                                    read_hydrate,                hydrate_word },
	{ "links",    "keep or follow",                                read_links,                  links_word },
	{ "keep",     "no or a time like 2h",                          read_keep,                   keep_word },
	{ "max",      "a size like 200G, more than 0",                 read_max,                    max_word },
	{ "timeout",  "a time like 30m, more than 0",                  read_timeout,                timeout_word },
	{ "stall",    "a time like 5m, more than 0",                   read_stall,                  stall_word },
	{ "threads",  "a number from 1 to 1024",                       read_threads,                threads_word },
	{ "profile",  "a name of 64 letters, digits and ._-@ at most", read_profile,                profile_word },
	{ "keys",     "auto or env",                                   read_keys,                   keys_word },
};
/* clang-format on */

#define N_OPTIONS ARRAY_SIZE(options)
_Static_assert(N_OPTIONS <= 32, "read_option() has a bit for each option in an unsigned");

static const struct option *dataset_options_find(const char *name, size_t n)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (!strncmp(options[i].name, name, n) && options[i].name[n] == '\0')
			return &options[i];
	return NULL;
}

bool dataset_option_is_known(const char *name, size_t n, bool *flagp)
{
	const struct option *o = dataset_options_find(name, n);

	*flagp = o && !o->values;
	return o != NULL;
}

const char *dataset_option_nearest(const char *name)
{
	const char *names[N_OPTIONS + 1] = { NULL };

	for (size_t i = 0; i < N_OPTIONS; i++)
		names[i] = options[i].name;
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (!strcmp(names[i], name))
			return names[i];
	return strutil_nearest(name, names);
}

const char *dataset_option_nearest_value(const char *name, const char *value)
{
	static const struct {
		const char *name;
		const char *const *words;
	} rows[] = { { "method", methods },
		     { "onfail", onfails },
		     { "shard", shards },
		     { "hydrate", hydrates },
		     { "links", links } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].name, name))
			return strutil_nearest(value, rows[i].words);
	return NULL;
}

/* Writes "method, onfail, ... and keys". */
static const char *list_names(char *buf, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < N_OPTIONS && n < size; i++) {
		const char *before = i + 1 == N_OPTIONS ? " and " : ", ";

		n += (size_t)snprintf(buf + n, size - n, "%s%s", i == 0 ? "" : before,
				      options[i].name);
	}
	return buf;
}

static int refuse_unknown(const char *name, struct error *err)
{
	const char *nearest = dataset_option_nearest(name);
	char shown[DATASET_SHOW_SIZE], names[N_OPTIONS * 16];

	dataset_show(name, shown, sizeof(shown));
	if (dataset_dest_is_word(name))
		return dataset_refuse(
			err,
			"\"%s\" is a DEST, of which an item has one, before the second "
			"colon",
			shown);
	return dataset_refuse(err, "option \"%s\" is not known%s%s%s; known are %s, joined by +",
			      shown, nearest ? " (did you mean " : "", nearest ? nearest : "",
			      nearest ? "?)" : "", list_names(names, sizeof(names)));
}

/* Returns whether an option follows a colon, as in "strip=1:nested". */
static bool has_option(const char *value)
{
	const char *next = value ? strchr(value, ':') : NULL;
	bool flag;

	for (; next; next = strchr(next, ':')) {
		next++;
		if (dataset_option_is_known(next, strcspn(next, "=:"), &flag))
			return true;
	}
	return false;
}

static int read_option(struct dataset *d, char *text, unsigned *seen, struct error *err)
{
	char shown[DATASET_SHOW_SIZE];
	size_t n = strcspn(text, "=");
	const struct option *o = dataset_options_find(text, n);
	char *value = text[n] ? text + n + 1 : NULL;
	int r;

	if (n == 0 && !value)
		return dataset_refuse(err, "an option is empty; take the extra + away");
	if (value)
		text[n] = '\0';
	if (!o)
		return refuse_unknown(text, err);
	if (o->word && (*seen & 1u << (o - options)))
		return dataset_refuse(err, "option %s is given twice; keep one", o->name);
	*seen |= 1u << (o - options);
	if (!o->values && value)
		return dataset_refuse(err,
				      "option %s takes no value; write %s alone or leave it out",
				      o->name, o->name);
	if (o->values && !value)
		return dataset_refuse(err, "option %s needs a value; write %s= and %s", o->name,
				      o->name, o->values);
	if (value)
		dataset_decode(value);
	if (err)
		err->code = 0;
	r = o->read(d, value, err);
	if (r == -EINVAL && has_option(value))
		return dataset_refuse(err, "option %s: \"%s\" has a colon; options are joined by +",
				      o->name, dataset_show(value, shown, sizeof(shown)));
	if (r == -EINVAL && !(err && err->code))
		return dataset_refuse(err, "option %s: \"%s\" is not %s", o->name,
				      dataset_show(value, shown, sizeof(shown)), o->values);
	return r;
}

int dataset_options_read(struct dataset *d, char *text, struct error *err)
{
	unsigned seen = 0;
	char *next;
	int r;

	if (!*text)
		return 0;
	for (; text; text = next) {
		next = strchr(text, '+');
		if (next)
			*next++ = '\0';
		r = read_option(d, text, &seen, err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool dataset_options_are_default(const struct dataset *d)
{
	char buf[80];

	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].word && options[i].word(d, buf))
			return false;
	return d->n_include == 0 && d->n_exclude == 0;
}

static void print_one(FILE *f, const char **joinp, const struct option *o, const char *value)
{
	if (!value)
		return;
	fputs(*joinp, f);
	*joinp = "+";
	fputs(o->name, f);
	if (!o->values)
		return;
	fputc('=', f);
	/* The third field is not split at colons, so "sha256:…" is not encoded. */
	if (!strncmp(value, "sha256:", 7) && !strcmp(o->name, "verify"))
		fputs(value, f);
	else
		dataset_encode(f, value);
}

void dataset_options_print(FILE *f, const struct dataset *d, const char *first)
{
	const char *join = first;
	char buf[80];

	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option *o = &options[i];

		if (o->word)
			print_one(f, &join, o, o->word(d, buf));
		for (size_t k = 0; o->read == dataset_option_read_include && k < d->n_include; k++)
			print_one(f, &join, o, d->include[k]);
		for (size_t k = 0; o->read == dataset_option_read_exclude && k < d->n_exclude; k++)
			print_one(f, &join, o, d->exclude[k]);
	}
}

const char *dataset_method_to_string(enum dataset_method m)
{
	return methods[m];
}

int dataset_method_from_string(const char *s, enum dataset_method *mp)
{
	unsigned i;

	if (read_word(methods, s, &i) < 0)
		return -EINVAL;
	*mp = (enum dataset_method)i;
	return 0;
}
