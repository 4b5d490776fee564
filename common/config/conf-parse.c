/*
 * inih splits lines into keys and values. It accepts some mistakes silently: it cuts a line at 200
 * bytes and parses the rest as another line, it treats an indented line as a continuation of the
 * value before, it puts keys after "[s" into the last section, and it stops at a NUL. So it reads
 * through next_line(), which detects these mistakes. It passes only unambiguous lines on, and an
 * empty line instead of a refused one. So line numbers stay correct, and one run finds every error.
 *
 * Sections are kept here and not taken from inih, which cuts their names and says nothing of a
 * section without keys.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <string.h>

#include <ini.h>

#include "common/util/parse.h"
#include "common/util/strutil.h"

struct parser {
	struct conf *conf;
	struct conf_places *places;
	struct conf_report *report;
	const char *p, *end;		    /* the unread part */
	const struct conf_section *section; /* NULL: no section yet, or an invalid one */
	bool any_section;
	size_t index;				/* of the item of a named section */
	size_t place;				/* the section's index in places */
	const struct conf_section *singles[16]; /* unnamed sections seen in this file */
	size_t n_singles;
	const struct conf_key *keys[64]; /* keys seen in this section */
	size_t n_keys;
	bool crlf; /* a line with CR LF was reported */
	int failure;
};

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " ");
}

/* Returns the beginning of a comment as inih sees it: a ";" after a blank. */
static const char *find_comment(const char *p)
{
	for (bool blank = false; *p && !(blank && *p == ';'); p++)
		blank = *p == ' ';
	return p;
}

/* key: NULL for a named section. */
static struct conf_place *find_place(struct parser *ps, const struct conf_key *key)
{
	for (size_t i = 0; i < ps->places->n_items; i++) {
		struct conf_place *place = &ps->places->items[i];

		if (place->section == ps->section && place->key == key &&
		    (key || place->index == ps->index))
			return place;
	}
	return NULL;
}

static int add_place(struct parser *ps, const struct conf_key *key)
{
	struct conf_place *items, *item;

	items = realloc(ps->places->items, (ps->places->n_items + 1) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	ps->places->items = items;
	item = &items[ps->places->n_items];
	*item = (struct conf_place){ ps->section,      ps->index, key, strdup(ps->report->file),
				     ps->report->line, false };
	if (!item->file)
		return -ENOMEM;
	ps->place = ps->places->n_items++;
	return 0;
}

static int move_place(struct parser *ps, struct conf_place *place)
{
	char *file = strdup(ps->report->file);

	if (!file)
		return -ENOMEM;
	free(place->file);
	place->file = file;
	place->line = ps->report->line;
	return 0;
}

/* Records the place of a key of an unnamed section. */
static int note_key(struct parser *ps, const struct conf_key *key)
{
	struct conf_place *place = find_place(ps, key);

	return place ? move_place(ps, place) : add_place(ps, key);
}

/* Continues an existing section. A second one in the same file is an error; in a later file it
 * changes the first one. */
static int amend(struct parser *ps, const struct conf_section *section, const char *name,
		 size_t index)
{
	struct conf_place *place;

	ps->section = section;
	ps->index = index;
	place = find_place(ps, NULL);
	if (!place || !strcmp(place->file, ps->report->file)) {
		ps->section = NULL;
		return conf_report(ps->report, EINVAL, "give one of them another name",
				   "section [%s %s] is there already", section->name, name);
	}
	if (move_place(ps, place) < 0)
		return ps->failure = -ENOMEM;
	ps->place = (size_t)(place - ps->places->items);
	return 0;
}

void conf_places_deinit(struct conf_places *places)
{
	for (size_t i = 0; i < places->n_items; i++)
		free(places->items[i].file);
	free(places->items);
	places->items = NULL;
	places->n_items = 0;
}

static bool is_section_name(const char *name)
{
	size_t n;

	if (!strutil_is_alpha(*name) && !strutil_is_digit(*name))
		return false;
	for (n = 0; name[n]; n++)
		if (!strutil_is_alpha(name[n]) && !strutil_is_digit(name[n]) &&
		    !strchr("._-", name[n]))
			return false;
	return n <= CONF_MAX_NAME;
}

static int open_single(struct parser *ps, const struct conf_section *section)
{
	for (size_t i = 0; i < ps->n_singles; i++)
		if (ps->singles[i] == section)
			return conf_report(ps->report, EINVAL, "put its keys under the first one",
					   "section [%s] is there twice", section->name);
	ps->singles[ps->n_singles++] = section;
	ps->section = section;
	return 0;
}

static int open_named(struct parser *ps, const struct conf_section *section, const char *name)
{
	struct conf_tier *tier;
	size_t index;
	int r;

	if (!*name)
		return conf_report(ps->report, EINVAL, "give it one: letters, digits and . _ -",
				   "section [%s] needs a name", section->name);
	if (!is_section_name(name))
		return conf_report(ps->report, EINVAL,
				   "use letters, digits and . _ - alone, 32 at most, a letter or "
				   "digit first",
				   "\"%.40s\" is no name for a section", name);
	if (conf_find_item(ps->conf, section, name, &index))
		return amend(ps, section, name, index);
	r = conf_add_item(ps->conf, section, name);
	if (r < 0)
		return ps->failure = r;
	ps->section = section;
	if (!strcmp(section->name, "source"))
		ps->index = ps->conf->n_sources - 1;
	else if (!strcmp(section->name, "dataset"))
		ps->index = ps->conf->n_datasets - 1;
	else
		ps->index = ps->conf->n_tiers - 1;
	if (!strcmp(section->name, "tier") && !strcmp(name, "shm")) {
		tier = &ps->conf->tiers[ps->index];
		tier->kind = CONF_TIER_MEMORY;
	}
	r = add_place(ps, NULL);
	if (r < 0)
		ps->failure = r;
	return r;
}

/* Parses "[kind]" or "[kind name]", and perhaps a comment. */
static int open_section(struct parser *ps, const char *line)
{
	char text[CONF_MAX_LINE + 1], hint[160], *kind, *name;
	const char *close = strchr(line, ']'), *rest, *nearest;
	const struct conf_section *section;
	size_t n;

	ps->section = NULL;
	ps->any_section = true;
	ps->n_keys = 0;
	if (!close || close > find_comment(line))
		return conf_report(ps->report, EINVAL, "close it: [NAME]", "a [ has no ]");
	rest = skip_blanks(close + 1);
	if (*rest && *rest != ';' && *rest != '#')
		return conf_report(ps->report, EINVAL, "put it on a line of its own",
				   "\"%.40s\" follows a section on the same line", rest);
	snprintf(text, sizeof(text), "%.*s", (int)(close - line - 1), line + 1);
	for (n = strlen(text); n > 0 && text[n - 1] == ' ';)
		text[--n] = '\0';
	kind = text + strspn(text, " ");
	name = kind + strcspn(kind, " ");
	section = conf_find_section(kind, (size_t)(name - kind));
	if (*name)
		*name++ = '\0';
	name += strspn(name, " ");
	if (!section) {
		nearest = conf_nearest_section(kind);
		if (nearest)
			snprintf(hint, sizeof(hint), "did you mean [%s]?", nearest);
		else
			conf_list_sections(hint, sizeof(hint));
		return conf_report(ps->report, EINVAL, hint, "section [%.40s] is not known", kind);
	}
	if (section->named)
		return open_named(ps, section, name);
	if (*name)
		return conf_report(ps->report, EINVAL, "remove the name",
				   "section [%s] has no name", section->name);
	return open_single(ps, section);
}

/* Checks whether inih can parse the line correctly. */
static int check_line(struct parser *ps, const char *line, size_t n)
{
	struct conf_report *r = ps->report;
	size_t bad;

	if (strlen(line) != n)
		return conf_report(r, EINVAL, "remove it", "byte %zu is a NUL", strlen(line) + 1);
	if (!text_is_clean(line, n, &bad))
		return conf_report(r, EINVAL, "remove it or save the file as UTF-8",
				   "byte %zu (0x%02x) is a control byte or no UTF-8", bad + 1,
				   (unsigned char)line[bad]);
	if (n > CONF_MAX_LINE)
		return conf_report(r, EINVAL, "make it shorter, or two rules of it",
				   "the line has %zu bytes and may have %d", n, CONF_MAX_LINE);
	if (*line == ' ')
		return conf_report(r, EINVAL,
				   "remove the blanks before it; a value ends with its line",
				   "the line begins with a blank");
	if (*line == '[')
		return open_section(ps, line);
	if (line + strcspn(line, "=:") >= find_comment(line))
		return conf_report(r, EINVAL, "write KEY=VALUE, or # in front of a comment",
				   "\"%.40s\" is no key", line);
	return 0;
}

/* Removes a byte order mark and the carriage return at the end of a line, and reports them. */
static void cut_ends(struct parser *ps, const char **startp, size_t *np)
{
	static const char mark[] = "\xef\xbb\xbf";

	if (ps->report->line == 1 && *np >= 3 && !memcmp(*startp, mark, 3)) {
		conf_report(ps->report, EINVAL, "save the file as UTF-8 without it",
			    "the file begins with a byte order mark");
		*startp += 3;
		*np -= 3;
	}
	if (*np > 0 && (*startp)[*np - 1] == '\r') {
		if (!ps->crlf)
			conf_report(ps->report, EINVAL,
				    "save the file with Unix line ends (dos2unix)",
				    "the line ends with a carriage return");
		ps->crlf = true;
		(*np)--;
	}
}

/* Copies the next line to buf; an invalid one becomes an empty line. Returns 0 at the end. */
static int next_line(struct parser *ps, char *buf, size_t size)
{
	_cleanup_(freep) char *line = NULL;
	const char *start = ps->p, *stop;
	size_t n;

	if (start == ps->end || ps->failure)
		return 0;
	stop = memchr(start, '\n', (size_t)(ps->end - start));
	ps->p = stop ? stop + 1 : ps->end;
	n = (size_t)((stop ? stop : ps->end) - start);
	ps->report->line++;
	buf[0] = '\0';
	cut_ends(ps, &start, &n);
	line = malloc(n + 1);
	if (!line) {
		ps->failure = -ENOMEM;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		line[i] = start[i] == '\t' ? ' ' : start[i];
	line[n] = '\0';
	start = skip_blanks(line);
	if ((*start == '\0' && strlen(line) == n) || *start == '#' || *start == ';')
		return 1;
	if (check_line(ps, line, n) == 0 && n + 2 <= size)
		memcpy(buf, line, n + 1);
	return 1;
}

static char *read_line(char *str, int num, void *stream)
{
	struct parser *ps = stream;
	size_t n;

	if (num < CONF_MAX_LINE + 2 || !next_line(ps, str, (size_t)num))
		return NULL;
	n = strlen(str);
	str[n] = '\n';
	str[n + 1] = '\0';
	return str;
}

static int check_key(struct parser *ps, const char *name, const struct conf_key *key)
{
	const char *nearest;
	char hint[96];

	if (!key) {
		nearest = conf_nearest_key(ps->section, name);
		snprintf(hint, sizeof(hint),
			 nearest ? "did you mean %s?"
				 : "remove it; stage-data.conf(5) lists the keys%s",
			 nearest ? nearest : "");
		return conf_report(ps->report, EINVAL, hint, "key %.40s is not known in [%s]", name,
				   ps->section->name);
	}
	for (size_t i = 0; i < ps->n_keys; i++)
		if (ps->keys[i] == key)
			return conf_report(ps->report, EINVAL, "keep one",
					   "key %s is there twice in this section", key->name);
	if (ps->n_keys < ARRAY_SIZE(ps->keys))
		ps->keys[ps->n_keys++] = key;
	return 0;
}

/* Refuses a later file that sets Match, Source or Path of an item again. These keys define a
 * rule, a dataset or a tier, so the later file probably means another item and uses its name by
 * mistake. */
static int check_again(struct parser *ps, const struct conf_key *key)
{
	const char *const *field;
	char hint[160];

	if (!ps->section->named || (strcmp(key->name, "Match") && strcmp(key->name, "Source") &&
				    strcmp(key->name, "Path")))
		return 0;
	field = (const char *const *)((const char *)conf_section_base(ps->conf, ps->section,
								      ps->index) +
				      key->offset);
	if (!**field)
		return 0;
	snprintf(hint, sizeof(hint),
		 "give one of them another name, or leave %s out to change the first", key->name);
	return conf_report(ps->report, EINVAL, hint,
			   "section [%s %s] is there already, in an earlier file, with %s=%.200s",
			   ps->section->name,
			   *(char *const *)conf_section_base(ps->conf, ps->section, ps->index),
			   key->name, *field);
}

/* Checks for mistakes that values of type text would accept. Other types refuse them. */
static int check_value(struct parser *ps, const struct conf_key *key, const char *value)
{
	if (*value == '"' || *value == '\'')
		return conf_report(ps->report, EINVAL, "remove the quotes",
				   "%s: quotes would be part of the value", key->name);
	if (strstr(value, " #") && !strstr(key->name, "Description"))
		return conf_report(ps->report, EINVAL, "begin a comment after a value with \";\"",
				   "%s: what follows # would be part of the value", key->name);
	return 0;
}

static int take_key(void *user, const char *section, const char *name, const char *value)
{
	struct parser *ps = user;
	const struct conf_key *key;
	int r;

	if (!name || !value)
		/* A new section: inih can be built to call the handler for these, too. */
		return 1;
	if (!ps->section) {
		if (!ps->any_section)
			conf_report(ps->report, EINVAL,
				    "write [daemon] or another section before it",
				    "key %.40s is in no section", name);
		return 1;
	}
	key = conf_find_key(ps->section, name);
	r = check_key(ps, name, key);
	if (r == 0)
		r = check_again(ps, key);
	if (r == 0)
		r = check_value(ps, key, value);
	if (r == 0)
		r = conf_set_value(conf_section_base(ps->conf, ps->section, ps->index), key, value,
				   ps->report);
	if (r == 0 && !ps->section->named)
		r = note_key(ps, key);
	if (r == -ENOMEM)
		ps->failure = r;
	if (r < 0 && ps->section->named)
		ps->places->items[ps->place].bad = true;
	return 1;
}

int conf_parse(struct conf *conf, const char *data, size_t size, struct conf_places *places,
	       struct conf_report *r)
{
	struct parser ps = {
		.conf = conf, .places = places, .report = r, .p = data, .end = data + size
	};
	unsigned n_errors = r->n_errors;
	int rc;

	r->line = 0;
	rc = ini_parse_stream(read_line, &ps, take_key, &ps);
	if (ps.failure)
		return ps.failure;
	if (rc == -2)
		return -ENOMEM;
	/* inih refused a line in which no error was found, or did not read all lines */
	if ((rc != 0 || ps.p != ps.end) && r->n_errors == n_errors) {
		r->line = rc > 0 ? (unsigned)rc : r->line;
		conf_report(r, EINVAL, "write KEY=VALUE", "the line is not understood");
	}
	r->line = 0;
	return 0;
}
