/*
 * The first rule that covers a source and admits the user decides (common/config/conf-match.c). So
 * a rule for some users excludes nobody if another rule covers the same data, and a rule after a
 * wider one is never used. To find out whether one pattern covers another, paths that match the
 * other one are tried.
 */
#include "client/conf-advice.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/capture.h"
#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "common/util/beneath.h"
#include "common/util/error.h"
#include "common/util/path.h"

#define SINFO_MS 5000
#define ANY "zq9x" /* a name that matches wildcards only */

struct advice {
	const struct conf *conf;
	conf_advice_fn *fn;
	void *arg;
	const char *section,
		*name; /* section and name for conf_get_place(); NULL for a finding about a file */
};

/* Reports a finding. If it is about a section or a key, the text begins with file and line. */
static void conf_advice_tell(const struct advice *a, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void conf_advice_tell(const struct advice *a, const char *hint, const char *fmt, ...)
{
	char text[ERROR_MAX_SIZE];
	const char *file;
	unsigned line;
	va_list ap;
	int n = 0;

	if (a->section && conf_get_place(a->conf, a->section, a->name, &file, &line))
		n = snprintf(text, sizeof(text), "%s:%u: ", file, line);
	if (n < 0 || (size_t)n >= sizeof(text))
		n = 0;
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	a->fn(a->arg, hint, text);
}

/* Copies the next word of a list. Returns the rest; NULL at the end. */
static const char *next_word(const char *list, char *word, size_t size)
{
	size_t n = strcspn(list, ",");

	if (!*list)
		return NULL;
	snprintf(word, size, "%.*s", (int)n, list);
	return list + n + (list[n] == ',');
}

/* ---- rules ---- */

/* Makes a path that matches the pattern, with `deep` in the place of **. */
static bool fill(const char *pattern, const char *deep, char *buf, size_t size)
{
	size_t n = 0;

	while (*pattern && n + strlen(deep) + 2 < size) {
		bool all = !strncmp(pattern, "**", 2);

		if (*pattern == '*' || *pattern == '?')
			n += (size_t)snprintf(buf + n, size - n, "%s", all ? deep : ANY);
		else
			buf[n++] = *pattern;
		pattern += all ? 2 : 1;
	}
	buf[n] = '\0';
	return !*pattern;
}

static bool covers_all_of(const struct conf_source *s, const struct conf_source *other)
{
	char path[PATH_MAX];

	return fill(other->match, ANY, path, sizeof(path)) && conf_source_covers(s, path) &&
	       fill(other->match, ANY "/" ANY "/" ANY, path, sizeof(path)) &&
	       conf_source_covers(s, path);
}

static bool is_for_some(const struct conf_source *s)
{
	return *s->allow_users || *s->allow_groups;
}

static bool has_all_words(const char *list, const char *words)
{
	char word[256];

	while ((words = next_word(words, word, sizeof(word))))
		if (!conf_list_has(list, word))
			return false;
	return true;
}

/* Returns whether s admits everybody whom `other` admits. Does not look up the members of
 * groups. */
static bool admits_all_of(const struct conf_source *s, const struct conf_source *other)
{
	if (!has_all_words(other->deny_users, s->deny_users))
		return false;
	if (!is_for_some(s))
		return true;
	return is_for_some(other) && has_all_words(s->allow_users, other->allow_users) &&
	       has_all_words(s->allow_groups, other->allow_groups);
}

/* Finds the first user in other's DenyUsers whom s admits regardless of groups. */
static bool admits_denied(const struct conf_source *s, const struct conf_source *other, char *word,
			  size_t size)
{
	const char *list = other->deny_users;

	while ((list = next_word(list, word, size)))
		if (conf_source_admits(s, word, NULL, 0))
			return true;
	return false;
}

static bool is_about_users(const struct conf_key *key)
{
	return !strcmp(key->name, "Match") || !strcmp(key->name, "AllowUsers") ||
	       !strcmp(key->name, "AllowGroups") || !strcmp(key->name, "DenyUsers");
}

/* Returns whether the rules differ only in Match and in the users they admit. */
static bool are_alike(const struct conf_source *a, const struct conf_source *b)
{
	size_t n_keys;
	const struct conf_key *keys = conf_get_keys(&n_keys);

	for (size_t i = 0; i < n_keys; i++) {
		const char *x = (const char *)a + keys[i].offset,
			   *y = (const char *)b + keys[i].offset;
		bool is_text = !strcmp(keys[i].type, "text") || !strcmp(keys[i].type, "words");

		if (strcmp(keys[i].section, "source") || is_about_users(&keys[i]))
			continue;
		if (is_text ? strcmp(*(char *const *)x, *(char *const *)y)
			    : memcmp(x, y, keys[i].size))
			return false;
	}
	return true;
}

/* Returns whether there was a finding. */
static bool advise_pair(struct advice *a, const struct conf_source *s,
			const struct conf_source *other, bool other_is_first)
{
	char user[256];

	a->section = "source";
	a->name = s->name;
	if (admits_denied(other, s, user, sizeof(user)))
		conf_advice_tell(
			a, "put DenyUsers= into the wider rule, too",
			"[source %s] DenyUsers=%s excludes nobody: [source %s] Match=%s covers the "
			"same and "
			"admits user %s",
			s->name, s->deny_users, other->name, other->match, user);
	else if (is_for_some(s) && !is_for_some(other) && are_alike(s, other))
		conf_advice_tell(
			a,
			"give the wider rule AllowUsers= or AllowGroups=, too, or a narrower "
			"Match=",
			"[source %s] lists users or groups but excludes nobody: [source %s] "
			"Match=%s covers the "
			"same and admits all",
			s->name, other->name, other->match);
	else if (other_is_first && admits_all_of(other, s))
		conf_advice_tell(
			a,
			"put the narrow rule first: files of conf.d come after the main file, in "
			"the "
			"order of "
			"their names",
			"[source %s] is never used: [source %s] Match=%s before it covers the same "
			"and admits the "
			"same users",
			s->name, other->name, other->match);
	else
		return false;
	return true;
}

void conf_advise_rules(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	struct advice a = { .conf = conf, .fn = fn, .arg = arg };

	for (size_t i = 0; i < conf->n_sources; i++)
		for (size_t k = 0; k < conf->n_sources; k++)
			if (k != i && covers_all_of(&conf->sources[k], &conf->sources[i]) &&
			    advise_pair(&a, &conf->sources[i], &conf->sources[k], k < i))
				break;
}

/* ---- names ---- */

/* Returns whether the name does not exist. After an error of the name service, the name counts as
 * known. */
static bool is_unknown(const char *name, bool group)
{
	const void *entry;

	errno = 0;
	entry = group ? (const void *)getgrnam(name) : (const void *)getpwnam(name);
	return !entry && (errno == 0 || errno == ENOENT || errno == ESRCH);
}

/* Checks a list of users or groups in [source NAME]; source NULL: in [daemon]. */
static void advise_list(struct advice *a, const char *source, const char *key, const char *list)
{
	bool group = !strcmp(key, "AllowGroups");
	char section[128] = "[daemon]", word[256];

	if (source)
		snprintf(section, sizeof(section), "[source %s]", source);
	a->section = source ? "source" : "daemon";
	a->name = source ?: key;
	while ((list = next_word(list, word, sizeof(word))))
		if (is_unknown(word, group))
			conf_advice_tell(a, "correct the name, or take it out",
					 "%s %s=%s: this machine knows no such %s", section, key,
					 word, group ? "group" : "user");
}

void conf_advise_names(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	struct advice a = { .conf = conf, .fn = fn, .arg = arg };

	advise_list(&a, NULL, "AllowUsers", conf->allow_users);
	for (size_t i = 0; i < conf->n_sources; i++) {
		const struct conf_source *s = &conf->sources[i];

		advise_list(&a, s->name, "AllowUsers", s->allow_users);
		advise_list(&a, s->name, "AllowGroups", s->allow_groups);
		advise_list(&a, s->name, "DenyUsers", s->deny_users);
	}
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL)
		if (!strncmp(text, line, n) && (text[n] == '\n' || !text[n]))
			return true;
	return false;
}

static void advise_partitions(const struct advice *a, const char *known, const char *key,
			      const char *list)
{
	char word[256];

	while ((list = next_word(list, word, sizeof(word))))
		if (!has_line(known, word))
			conf_advice_tell(a,
					 "correct the name; sinfo -o %R lists those that there are",
					 "%s=%s: Slurm has no partition of this name", key, word);
}

static bool names_partitions(const struct conf *conf)
{
	bool any = *conf->partitions;

	for (size_t i = 0; i < conf->n_sources; i++)
		any = any || *conf->sources[i].mover_partition;
	return any;
}

int conf_advise_partitions(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	static const char *const argv[] = { "sinfo", "-h", "-a", "-o", "%R", NULL };
	struct advice a = {
		.conf = conf, .fn = fn, .arg = arg, .section = "daemon", .name = "Partitions"
	};
	_cleanup_(freep) char *known = NULL;
	int r;

	if (!names_partitions(conf))
		return 0;
	r = capture_run(argv, SINFO_MS, &known);
	if (r != 0)
		return r < 0 ? r : -EIO;
	advise_partitions(&a, known, "Partitions", conf->partitions);
	a.section = "source";
	for (size_t i = 0; i < conf->n_sources; i++) {
		a.name = conf->sources[i].name;
		advise_partitions(&a, known, "MoverPartition", conf->sources[i].mover_partition);
	}
	return 0;
}

/* ---- files ---- */

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

/* Returns whether the file was disabled on purpose, or is hidden. */
static bool is_put_aside(const char *name)
{
	return ends_in(name, ".off") || ends_in(name, ".disabled") || !strncmp(name, "README", 6) ||
	       (*name == '.' && !ends_in(name, ".conf"));
}

/* Returns whether the file is a copy made by a package manager or editor. It may contain the
 * intended configuration. */
static bool is_copy(const char *name)
{
	static const char *const ends[] = { "~",	 ".bak",       ".orig",	    ".old",
					    ".rpmnew",	 ".rpmsave",   ".rpmorig",  ".dpkg-new",
					    ".dpkg-old", ".dpkg-dist", ".ucf-dist", ".ucf-old" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_in(name, ends[i]))
			return true;
	return false;
}

static void advise_file(const struct advice *a, const char *dir, const char *name)
{
	bool is_read = *name != '.' && ends_in(name, ".conf") && strlen(name) > 5;

	if (is_read || is_put_aside(name))
		return;
	if (is_copy(name))
		conf_advice_tell(a, "compare it with the file that is read, then remove it",
				 "%s/%s is not read: its name is that of a copy, which an editor "
				 "or a package "
				 "manager made",
				 dir, name);
	else
		conf_advice_tell(
			a,
			*name == '.' ? "remove the dot before it"
				     : "give it a name that ends in .conf",
			"%s/%s is not read: names have to end in .conf and not to begin with a dot",
			dir, name);
}

static void get_dir(const struct conf *conf, const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%.*s%s", (int)(path_base(conf->path) - conf->path), conf->path, name);
}

void conf_advise_off(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	struct advice a = {
		.conf = conf, .fn = fn, .arg = arg, .section = "daemon", .name = "Enabled"
	};
	char path[PATH_MAX], hint[PATH_MAX + 32];

	if (conf->disabled_text) {
		a.section = NULL;
		get_dir(conf, "disabled", path, sizeof(path));
		snprintf(hint, sizeof(hint), "remove %s to switch it on", path);
		conf_advice_tell(&a, hint, "staging is switched off by %s%s%s", path,
				 *conf->disabled_text ? ": " : "", conf->disabled_text);
	} else if (!conf->enabled) {
		conf_advice_tell(&a, "set Enabled=yes to switch it on",
				 "staging is switched off by Enabled=no");
	}
}

void conf_advise_files(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	const struct advice a = { .conf = conf, .fn = fn, .arg = arg };
	_cleanup_(dir_closep) DIR *dir = NULL;
	const struct dirent *e;
	char path[PATH_MAX];

	get_dir(conf, "conf.d", path, sizeof(path));
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		advise_file(&a, path, e->d_name);
}

/* Returns whether other users can read the file, or read and enter the directory. */
static bool is_open(const struct advice *a, const char *path)
{
	struct stat st;
	mode_t need;

	if (stat(path, &st) < 0)
		return true;
	need = S_ISDIR(st.st_mode) ? 05 : 04;
	if ((st.st_mode & need) == need)
		return true;
	conf_advice_tell(
		a, S_ISDIR(st.st_mode) ? "chmod 0755 it" : "chmod 0644 it",
		"%s has mode %04o: users and nodes, which read it without being root, can't", path,
		st.st_mode & 07777);
	return false;
}

bool conf_advise_modes(const struct conf *conf, conf_advice_fn *fn, void *arg)
{
	const struct advice a = { .conf = conf, .fn = fn, .arg = arg };
	char dir[PATH_MAX], beside[PATH_MAX], pattern[PATH_MAX + 16];
	bool ok;
	glob_t g;

	get_dir(conf, "", dir, sizeof(dir));
	get_dir(conf, "conf.d", beside, sizeof(beside));
	snprintf(pattern, sizeof(pattern), "%s/*.conf", beside);
	ok = is_open(&a, dir);
	ok = is_open(&a, conf->path) && ok;
	ok = is_open(&a, beside) && ok;
	if (glob(pattern, 0, NULL, &g))
		return ok;
	for (size_t i = 0; i < g.gl_pathc; i++)
		ok = is_open(&a, g.gl_pathv[i]) && ok;
	globfree(&g);
	return ok;
}
