#include "client/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/output.h"
#include "common/dataset.h"
#include "common/parse.h"
#include "common/words.h"
#include "stage-build.h"

int cmd_next_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	char spec[64];
	const char *word = optind > 0 && optind < argc ? argv[optind] : "";
	int c;

	/* "+" first, then ":" for "say which one lacks its argument" */
	snprintf(spec, sizeof(spec), "%s:%s", shorts[0] == '+' ? "+" : "",
		 shorts + (shorts[0] == '+'));
	opterr = 0;
	c = getopt_long(argc, argv, spec, longs, NULL);
	if (c == ':')
		output_usage(argv[0], "%s needs a value", argv[optind - 1]);
	else if (c == '?' && optopt && word[0] == '-' && word[1] != '-')
		output_usage(argv[0], "there is no option -%c", optopt);
	else if (c == '?')
		output_usage(argv[0], "there is no option like this: %s", argv[optind - 1]);
	return c == ':' ? '?' : c;
}

int cmd_get_duration(const char *verb, const char *option, const char *text, uint64_t *msp)
{
	if (parse_duration(text, msp) == 0)
		return 0;
	output_usage(verb, "%s %s is no duration; 90 (seconds), 5m and 1h30m are", option, text);
	return -EINVAL;
}

int cmd_get_size(const char *verb, const char *option, const char *text, uint64_t *bytesp)
{
	if (parse_size(text, bytesp) == 0 && *bytesp > 0)
		return 0;
	output_usage(verb, "%s %s is no size; 500M and 3G are", option, text);
	return -EINVAL;
}

static bool is_name(const char *name)
{
	if (!words_is_alpha(name[0]) || strlen(name) >= DATASET_NAME_SIZE)
		return false;
	for (; *name; name++)
		if (!words_is_alpha(*name) && !words_is_digit(*name) && *name != '_')
			return false;
	return true;
}

bool cmd_check_names(const char *verb, char *const *names, size_t n_names)
{
	for (size_t i = 0; i < n_names; i++)
		if (!is_name(names[i])) {
			output_usage(verb, "'%s' is no name of a dataset; 'stagectl list' shows "
					   "those of this job", names[i]);
			return false;
		}
	return true;
}

int cmd_get_helper(char *buf, size_t size, const char *name)
{
	const char *dir = getenv("STAGE_LIBEXEC_DIR");
	int n = snprintf(buf, size, "%s/%s", dir && dir[0] ? dir : STAGE_LIBEXEC_DIR, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

const char *cmd_get_conf(void)
{
	const char *path = getenv("STAGE_CONF");

	return path && path[0] ? path : NULL;
}
