#include "client/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/output.h"
#include "common/dataset/dataset.h"
#include "common/util/cleanup.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"
#include "stage-build.h"

static void refuse_long(const char *verb, const char *word, const struct option *longs)
{
	const char *names[32] = { NULL }, *nearest;
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(names) - 1 && longs[i].name; i++)
		names[i] = longs[i].name;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	nearest = strutil_nearest(name, names);
	output_usage(verb, "there is no option like this: %s%s%s%s", word,
		     nearest ? " (did you mean --" : "", nearest ?: "", nearest ? "?)" : "");
}

int cmd_next_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	char spec[64];
	const char *word = optind > 0 && optind < argc ? argv[optind] : "";
	int c;

	/* ":" makes getopt_long() return ':' for an option without its value; "+" must come before
	 * it. */
	snprintf(spec, sizeof(spec), "%s:%s", shorts[0] == '+' ? "+" : "",
		 shorts + (shorts[0] == '+'));
	opterr = 0;
	c = getopt_long(argc, argv, spec, longs, NULL);
	if (c == ':')
		output_usage(argv[0], "%s needs a value", argv[optind - 1]);
	else if (c == '?' && optopt && word[0] == '-' && word[1] != '-')
		output_usage(argv[0], "there is no option -%c", optopt);
	else if (c == '?')
		refuse_long(argv[0], argv[optind - 1], longs);
	return c == ':' ? '?' : c;
}

int cmd_get_duration(const char *verb, const char *option, const char *text, uint64_t *msp)
{
	if (parse_duration(text, msp) == 0)
		return 0;
	output_usage(verb, "%s %s is no duration; 90 (seconds), 5m and 1h30m are", option, text);
	return -EINVAL;
}

/* A timeout of 0 is probably a mistake: it could mean no time or no limit. */
int cmd_get_timeout(const char *verb, const char *text, uint64_t *msp)
{
	int r = cmd_get_duration(verb, "--timeout", text, msp);

	if (r < 0 || *msp > 0)
		return r;
	output_usage(verb,
		     "--timeout %s gives no time at all; give more, or leave it out ('stagectl "
		     "status' asks and does not wait)",
		     text);
	return -EINVAL;
}

int cmd_get_size(const char *verb, const char *option, const char *text, uint64_t *bytesp)
{
	if (parse_size(text, bytesp) == 0 && *bytesp > 0)
		return 0;
	output_usage(verb, "%s %s is no size; 500M and 3G are", option, text);
	return -EINVAL;
}

bool cmd_check_names(const char *verb, char *const *names, size_t n_names)
{
	for (size_t i = 0; i < n_names; i++)
		if (!dataset_name_is_legal(names[i], strlen(names[i]))) {
			output_usage(verb,
				     "'%s' is no name of a dataset; 'stagectl list' shows "
				     "those of this job",
				     names[i]);
			return false;
		}
	return true;
}

int cmd_get_helper(char *buf, size_t size, const char *name)
{
	const char *dir = getenv("STAGE_LIBEXEC_DIR");
	int n = snprintf(buf, size, "%s/%s", dir && dir[0] ? dir : STAGE_LIBEXEC_DIR, name);

	if (n >= 0 && (size_t)n < size)
		return 0;
	errno = ENAMETOOLONG;
	return -ENAMETOOLONG;
}

const char *cmd_get_conf(void)
{
	const char *path = getenv("STAGE_CONF");

	return path && path[0] ? path : NULL;
}
