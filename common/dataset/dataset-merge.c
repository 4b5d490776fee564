/*
 * An unquoted --stage-data=/p/s-{000..146}.tar reaches us as 147 options: the shell expands braces.
 * Many options that differ only in one place in the middle are treated as this mistake.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/strutil.h"

#define MAX_ALIKE 8 /* up to this number of options that differ in one place are accepted */

static size_t common_prefix(const char *a, const char *b, size_t n)
{
	size_t i = 0;

	while (i < n && a[i] && a[i] == b[i])
		i++;
	return i;
}

static size_t common_suffix(const char *a, const char *b, size_t max)
{
	size_t n = strlen(a), m = strlen(b), i = 0;

	while (i < max && i < n && i < m && a[n - 1 - i] == b[m - 1 - i])
		i++;
	return i;
}

/* Returns whether the values have the same beginning and end, and differ in a short middle at
 * most. */
static bool are_alike(const char *const *values, size_t n_values, size_t *prefixp, size_t *suffixp)
{
	size_t prefix = strlen(values[0]), suffix = prefix;

	for (size_t i = 1; i < n_values; i++)
		prefix = common_prefix(values[0], values[i], prefix);
	for (size_t i = 1; i < n_values; i++)
		suffix = common_suffix(values[0], values[i], suffix);
	*prefixp = prefix;
	*suffixp = suffix;
	for (size_t i = 0; i < n_values; i++)
		if (strlen(values[i]) > prefix + suffix + 32)
			return false;
	return prefix > 0;
}

/* Finds the digits in which the values differ. Returns false if they differ in anything else. */
static bool find_digits(const char *const *values, size_t n_values, size_t *prefixp,
			size_t *suffixp)
{
	size_t prefix, suffix, n = strlen(values[0]);

	if (!are_alike(values, n_values, &prefix, &suffix))
		return false;
	while (prefix > 0 && strutil_is_digit(values[0][prefix - 1]))
		prefix--;
	while (suffix > 0 && strutil_is_digit(values[0][n - suffix]))
		suffix--;
	*prefixp = prefix;
	*suffixp = suffix;
	return true;
}

static int read_digits(const char *value, size_t prefix, size_t suffix, char digits[static 11],
		       uint32_t *np)
{
	size_t n = strlen(value);

	if (n <= prefix + suffix || n - prefix - suffix > 10)
		return -EINVAL;
	memcpy(digits, value + prefix, n - prefix - suffix);
	digits[n - prefix - suffix] = '\0';
	return parse_uint32(digits, np);
}

bool dataset_find_sequence(const char *const *values, size_t n_values, char *buf, size_t size)
{
	char first[11] = "", digits[11] = "";
	size_t prefix, suffix;
	uint32_t start = 0, number = 0;

	if (n_values < 3 || !find_digits(values, n_values, &prefix, &suffix) ||
	    read_digits(values[0], prefix, suffix, first, &start) < 0)
		return false;
	for (size_t i = 1; i < n_values; i++)
		if (read_digits(values[i], prefix, suffix, digits, &number) < 0 ||
		    number != start + i)
			return false;
	return snprintf(buf, size, "%.*s{%s..%s}%s", (int)prefix, values[0], first, digits,
			values[0] + strlen(values[0]) - suffix) < (int)size;
}

static int check_expanded_by_shell(const char *const *values, size_t n_values, struct error *err)
{
	char first[DATASET_SHOW_SIZE], last[DATASET_SHOW_SIZE], set[512];
	size_t prefix, suffix;

	if (n_values <= MAX_ALIKE ||
	    (!are_alike(values, n_values, &prefix, &suffix) && n_values <= DATASET_MAX_ITEMS))
		return 0;
	if (!dataset_find_sequence(values, n_values, set, sizeof(set)))
		strcpy(set, "/p/s-{000..146}.tar");
	dataset_show(values[0], first, sizeof(first));
	dataset_show(values[n_values - 1], last, sizeof(last));
	return dataset_refuse(err,
			      "%zu options in a row, \"%s\" to \"%s\": the shell has expanded the "
			      "braces; quote the value: '--stage-data=%s'",
			      n_values, first, last, set);
}

static void dataset_merge_add(FILE *f, bool *anyp, const char *value)
{
	fprintf(f, "%s%s", *anyp ? "," : "", value);
	*anyp = true;
}

/* Returns whether one of the command line's values has no "+", so that it replaces the script's
 * values. */
static bool replaces(const char *const *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*values[i] != '+')
			return true;
	return false;
}

static int check_added(const char *const *values, size_t n, struct error *err)
{
	char shown[DATASET_SHOW_SIZE];

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(values[i], "+none"))
			return dataset_refuse(
				err, "item \"+none\": none cancels and can't be added; write "
				     "none alone");
		if (!*values[i] || !strcmp(values[i], "+"))
			return dataset_refuse(err,
					      "--stage-data=%s is empty; name a dataset, or write "
					      "none",
					      values[i]);
		/* getopt uses the next word as the value, whatever it is */
		if (*values[i] == '-')
			return dataset_refuse(err,
					      "--stage-data has no value before %s; write "
					      "--stage-data=SOURCE (a file of that name is written "
					      "./%s)",
					      dataset_show(values[i], shown, sizeof(shown)), shown);
	}
	return 0;
}

int dataset_merge(char **valuep, const char *const *script, size_t n_script,
		  const char *const *command_line, size_t n_command_line, struct error *err)
{
	char *text = NULL;
	size_t size;
	bool any = false;
	FILE *f;
	int r;

	r = check_expanded_by_shell(command_line, n_command_line, err);
	if (r == 0)
		r = check_added(command_line, n_command_line, err);
	if (r == 0)
		r = check_added(script, n_script, err);
	if (r < 0)
		return r;
	f = open_memstream(&text, &size);
	if (!f)
		return error_errno(err, ENOMEM, "--stage-data");
	for (size_t i = 0; !replaces(command_line, n_command_line) && i < n_script; i++)
		dataset_merge_add(f, &any, script[i]);
	for (size_t i = 0; i < n_command_line; i++)
		dataset_merge_add(f, &any, command_line[i] + (*command_line[i] == '+'));
	if (ferror(f) | fclose(f)) {
		free(text);
		return error_errno(err, ENOMEM, "--stage-data");
	}
	if (size > DATASET_MAX_VALUE) {
		free(text);
		return dataset_refuse(
			err,
			"the values have %zu bytes together and may have %d; write the "
			"paths to a file, one a line, and @@FILE",
			size, DATASET_MAX_VALUE);
	}
	if (!any) {
		free(text);
		text = NULL;
	}
	*valuep = text;
	return 0;
}
