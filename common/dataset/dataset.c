/*
 * A value is cut at the commas outside {} and each item read by itself (dataset-item.c); what only
 * the list can tell is looked for here: two items that were meant to be one, numbers, names.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/path.h"

void dataset_list_deinit(struct dataset_list *list)
{
	for (size_t i = 0; i < list->n_items; i++)
		dataset_deinit(&list->items[i]);
	free(list->items);
	list->items = NULL;
	list->n_items = 0;
}

struct piece {
	const char *text;
	size_t n;
};

static struct piece piece_at(const char *text)
{
	return (struct piece){ text, dataset_item_length(text) };
}

/* Writes a part of the value for a message. In an address, the part before the @ and the query are
 * left out, because they may be secrets. */
static void show_piece(struct piece p, char buf[static DATASET_SHOW_SIZE])
{
	const char *end = p.text + p.n, *host = memmem(p.text, p.n, "://", 3), *path, *at, *query;
	char copy[DATASET_SHOW_SIZE * 2];

	host = host ? host + 3 : end;
	path = memchr(host, '/', (size_t)(end - host)) ?: end;
	at = memrchr(host, '@', (size_t)(path - host));
	query = memchr(host, '?', (size_t)(end - host)) ?: end;
	path = at ? at : host;
	snprintf(copy, sizeof(copy), "%.*s%s%.*s%s", (int)(host - p.text), p.text, at ? "..." : "",
		 query > path ? (int)(query - path) : 0, path, query < end ? "?..." : "");
	dataset_show(copy, buf, DATASET_SHOW_SIZE);
}

/* Refuses an item that is probably the second pattern of "::include=*.a,*.b". */
static int check_pattern(const struct dataset *last, const char *pattern, struct error *err)
{
	const char *key = last->n_exclude ? "exclude" : "include";
	const char *glob = last->n_exclude   ? last->exclude[last->n_exclude - 1]
			   : last->n_include ? last->include[last->n_include - 1]
					     : NULL;

	if (!glob || !path_is_pattern(pattern) || strchr(pattern, '/'))
		return 0;
	if (!strncmp(pattern, "*.", 2) && !strncmp(glob, "*.", 2))
		return dataset_refuse(
			err,
			"would be an item of its own (written ./%.100s); the option is "
			"%s=*.{%.100s,%.100s}",
			pattern, key, glob + 2, pattern + 2);
	return dataset_refuse(err,
			      "would be an item of its own (written ./%.100s); the option is "
			      "%s={%.100s,%.100s}",
			      pattern, key, glob, pattern);
}

/* Refuses a comma that was meant as a "+": "::strip=1,nested". Checks the parsed item and not the
 * text, so that an item and its canonical form are treated the same. */
static int check_meant_as_one(const struct dataset *last, const struct dataset *d,
			      struct error *err)
{
	bool flag, known;

	if (d->scheme != DATASET_SCHEME_FILE || strcmp(d->dest, "auto") ||
	    !dataset_options_are_default(d))
		return 0;
	if (dataset_options_are_default(last) && !strcmp(last->dest, "auto"))
		return 0;
	if (d->name_given) {
		known = dataset_option_is_known(d->name, strlen(d->name), &flag);
		if (known && !flag && !strchr(d->source, '/'))
			return dataset_refuse(err,
					      "is an option, and options are joined by + (an item "
					      "is written %s=./%.100s)",
					      d->name, d->source);
		return 0;
	}
	if (dataset_option_is_known(d->source, strlen(d->source), &flag) && flag)
		return dataset_refuse(
			err,
			"is an option, and options are joined by + (a file of that name is "
			"written ./%s)",
			d->source);
	return check_pattern(last, d->source, err);
}

static int check_value(const char *value, struct error *err)
{
	char shown[DATASET_SHOW_SIZE];
	size_t size = strlen(value), bad;
	struct piece piece;

	if (size > DATASET_MAX_VALUE)
		return dataset_refuse(
			err,
			"the value has %zu bytes and may have %d; write the paths to a "
			"file, one a line, and @@FILE here",
			size, DATASET_MAX_VALUE);
	if (!text_is_clean(value, size, &bad)) {
		for (piece = piece_at(value); piece.text + piece.n <= value + bad;)
			piece = piece_at(piece.text + piece.n + 1);
		show_piece(piece, shown);
		return dataset_refuse(
			err,
			"item \"%s\": byte %zu (0x%02x) is a control byte or no UTF-8; "
			"remove it, or name a link to the file (ln -s) if its name has it",
			shown, bad - (size_t)(piece.text - value) + 1, (unsigned char)value[bad]);
	}
	if (!*value)
		return dataset_refuse(err, "the value is empty; name a dataset, or write none");
	return 0;
}

/* Appends a zeroed dataset. */
static struct dataset *list_append(struct dataset_list *list)
{
	struct dataset *items;

	items = realloc(list->items, (list->n_items + 1) * sizeof(*items));
	if (!items)
		return NULL;
	list->items = items;
	memset(&items[list->n_items], 0, sizeof(*items));
	return &items[list->n_items++];
}

/* Returns the last "; write ..." of a message, or NULL. */
static char *find_advice(char *text)
{
	char *found = NULL;

	for (char *at = text; (at = strstr(at, "; write ")); at++)
		found = at;
	return found;
}

/* Adds a hint with the item that was probably meant: this piece alone, or joined with the one
 * before. It replaces the advice in the message, except an alternative after ", or". */
static void suggest(struct piece piece, struct error *err)
{
	char meant[DATASET_SLIP_SIZE], other[ERROR_MAX_SIZE] = "", *advice;
	_cleanup_(freep) char *copy = strndup(piece.text, piece.n);
	const char *alternative;

	if (!err || err->has_hint || !copy || dataset_slip_correct(copy, meant) < 0)
		return;
	advice = find_advice(err->text);
	alternative = advice ? strstr(advice, ", or ") : NULL;
	if (alternative)
		strcpy(other, alternative);
	if (advice)
		*advice = '\0';
	error_set_hint(err, -EINVAL, "write '%s'%s", meant, other);
}

/* before: the previous piece, if there is one. */
static int read_piece(struct dataset_list *list, struct piece before, struct piece piece,
		      struct error *err)
{
	char shown[DATASET_SHOW_SIZE];
	bool joined = false;
	_cleanup_(freep) char *copy = NULL;
	struct dataset *d;
	int r;

	show_piece(piece, shown);
	if (piece.n > DATASET_MAX_ITEM)
		return dataset_refuse(
			err,
			"item \"%s\" has %zu bytes and may have %d; write the paths to "
			"a file, one a line, and @@FILE here",
			shown, piece.n, DATASET_MAX_ITEM);
	copy = strndup(piece.text, piece.n);
	d = copy ? list_append(list) : NULL;
	if (!d)
		return error_errno(err, ENOMEM, "item \"%s\"", shown);
	r = dataset_item_read(d, copy, err);
	if (r == 0 && list->n_items > 1) {
		r = check_meant_as_one(d - 1, d, err);
		joined = r < 0;
	}
	if (r == -ENOMEM)
		return error_errno(err, ENOMEM, "item \"%s\"", shown);
	if (r < 0)
		error_prefix(err, "item \"%s\"", shown);
	if (r < 0 && joined)
		suggest((struct piece){ before.text, before.n + 1 + piece.n }, err);
	else if (r < 0)
		suggest(piece, err);
	return r;
}

static size_t count_pieces(const char *value)
{
	size_t n = 1;

	for (struct piece p = piece_at(value); p.text[p.n]; p = piece_at(p.text + p.n + 1))
		n++;
	return n;
}

int dataset_list_from_string(struct dataset_list *list, const char *value, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list new = { 0 };
	struct piece piece, before = { 0 };
	size_t n;
	int r;

	r = check_value(value, err);
	if (r < 0)
		return r;
	n = count_pieces(value);
	if (n > DATASET_MAX_ITEMS)
		return dataset_refuse(err,
				      "%zu items are given and %d are possible; write a set as one "
				      "quoted item, '/p/s-{000..146}.tar', or a list, @@FILE",
				      n, DATASET_MAX_ITEMS);
	for (piece = piece_at(value); strcmp(value, "none");
	     piece = piece_at(piece.text + piece.n + 1)) {
		r = read_piece(&new, before, piece, err);
		if (r < 0)
			return r;
		before = piece;
		if (!piece.text[piece.n])
			break;
	}
	r = dataset_names_make(&new, err);
	if (r < 0)
		return r;
	*list = new;
	new = (struct dataset_list){ 0 };
	return 0;
}

const char *dataset_scheme_to_string(enum dataset_scheme s)
{
	static const char *const names[] = { "file", "http", "s3", "catalog", "list" };

	return names[s];
}
