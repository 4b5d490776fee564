/*
 * What to write instead of a source that is not there. The strict reader has accepted the item, so
 * these are guesses: a comma, a blank, a semicolon or a code such as "%2C" was meant in another
 * way.
 */
#include "common/dataset/dataset-internal.h"

#include <stdio.h>
#include <string.h>

#define ITEM_SIZE DATASET_SLIP_VALUE_SIZE
#define BETWEEN_ITEMS "; "

/* Appends n bytes of text. Returns false if there is no room. */
static bool append(char buf[static ITEM_SIZE], const char *text, size_t n)
{
	size_t used = strlen(buf);

	if (n >= ITEM_SIZE - used)
		return false;
	memcpy(buf + used, text, n);
	buf[used + n] = '\0';
	return true;
}

/* Gets the text of the item with that index. */
static bool get_item(const char *value, size_t index, char buf[static ITEM_SIZE])
{
	size_t n = dataset_item_length(value);

	for (; index > 0; index--) {
		if (!value[n])
			return false;
		value += n + 1;
		n = dataset_item_length(value);
	}
	if (n >= ITEM_SIZE)
		return false;
	memcpy(buf, value, n);
	buf[n] = '\0';
	return true;
}

/* Joins an item and a misspelt option that a comma separates from it: "/p/x,strp=1". Returns false
 * if the second one is no option. */
static bool join_option(const char *first, const char *second, char *buf, size_t size)
{
	const char *colon = strchr(first, ':'), *value = strchr(second, '=');
	char key[32];

	if (!value || strchr(value, '/') || value - second >= (int)sizeof(key))
		return false;
	snprintf(key, sizeof(key), "%.*s", (int)(value - second), second);
	if (!dataset_option_nearest(key))
		return false;
	return snprintf(buf, size, "%s%s%s", first,
			!colon			 ? "::"
			: strchr(colon + 1, ':') ? "+"
						 : ":",
			second) < (int)size;
}

/* Suggests one item instead of two if the second one is not a path by itself. */
static bool hint_comma(const char *value, size_t index, char *buf, size_t size)
{
	char first[ITEM_SIZE], second[ITEM_SIZE], both[2 * ITEM_SIZE], meant[DATASET_SLIP_SIZE];

	if (!get_item(value, index, first) || !get_item(value, index + 1, second))
		return false;
	if (strpbrk(first, "?@") || strchr("/.~$@\"", *second) || strstr(second, "://"))
		return false;
	snprintf(both, sizeof(both), "%s,%s", first, second);
	if ((dataset_slip_is_option(second) || join_option(first, second, both, sizeof(both))) &&
	    dataset_slip_correct(both, meant) == 0) {
		snprintf(buf, size, "; a comma begins another item: write '%s'", meant);
		return true;
	}
	if (snprintf(both, sizeof(both), "%s%%2C%s", first, second) >= (int)sizeof(both))
		return false;
	/* "x=/p/a,y=/p/b" is two items */
	if (strchr(first, ':') || strchr(second, '=') || !dataset_slip_is_item(both))
		return false;
	snprintf(buf, size, "; a comma begins another item: if it belongs to the name, write '%s'",
		 both);
	return true;
}

/* Suggests the path without backslashes, which separate directories in Windows, and quote a byte in
 * a shell. */
static bool hint_backslash(const char *item, char *buf, size_t size)
{
	char path[ITEM_SIZE] = "";

	if (!strchr(item, '\\'))
		return false;
	for (; *item; item++) {
		bool quotes = *item == '\\' && strchr(" '\"\\()[]{}*?$&;!#", item[1]);

		if (!quotes && !append(path, *item == '\\' ? "/" : item, 1))
			return false;
	}
	if (!dataset_slip_is_item(path))
		return false;
	snprintf(buf, size, "; a backslash is a part of the name here: did you mean '%s'?", path);
	return true;
}

/* Suggests several items instead of one with blanks or semicolons. */
static bool hint_separators(const char *item, char *buf, size_t size)
{
	char several[ITEM_SIZE] = "", part[ITEM_SIZE];
	const char *sign = strpbrk(item, BETWEEN_ITEMS);

	if (!sign)
		return false;
	for (size_t n; item += strspn(item, BETWEEN_ITEMS), *item; item += n) {
		n = strcspn(item, BETWEEN_ITEMS);
		part[0] = '\0';
		if (!append(part, item, n) || !dataset_slip_is_item(part) ||
		    (*several && !append(several, ",", 1)) || !append(several, part, n))
			return false;
	}
	if (!strchr(several, ','))
		snprintf(buf, size, "; did you mean '%s'?", several);
	else
		snprintf(buf, size,
			 "; a comma separates items, a %s belongs to one: for several, write '%s'",
			 *sign == ';' ? "semicolon" : "blank", several);
	return true;
}

/* Explains a code such as "%2C" in the name of the file; programs that download write such
 * names. */
static bool hint_code(const char *item, char *buf, size_t size)
{
	char name[ITEM_SIZE] = "", code[4] = "";
	bool found;

	for (const char *end = item + strcspn(item, ":"); item < end; item++) {
		found = dataset_code_to_byte(item) != '\0';
		if (found && !*code)
			memcpy(code, item, sizeof(code) - 1);
		if (!append(name, found ? "%25" : item, found ? 3 : 1))
			return false;
	}
	if (!*code || !append(name, item, strlen(item)) || !dataset_slip_is_item(name))
		return false;
	snprintf(buf, size, "; %s is read as %c: if it is a part of the name, write '%s'", code,
		 dataset_code_to_byte(code), name);
	return true;
}

char *dataset_slip_hint(const char *value, size_t index, char *buf, size_t size)
{
	char item[ITEM_SIZE], meant[DATASET_SLIP_SIZE];

	buf[0] = '\0';
	if (hint_comma(value, index, buf, size) ||
	    (index > 0 && hint_comma(value, index - 1, buf, size)))
		return buf;
	if (!get_item(value, index, item))
		return buf;
	if (hint_backslash(item, buf, size))
		return buf;
	if (dataset_slip_correct(item, meant) == 0)
		snprintf(buf, size, "; did you mean '%s'?", meant);
	else if (!hint_separators(item, buf, size))
		hint_code(item, buf, size);
	return buf;
}
