/*
 * Words that people write instead of those of the syntax, and values that are nearly correct. They
 * come from other programs (tar, rsync, Slurm) and from guesses.
 */
#include "common/dataset/dataset-internal.h"

#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/strutil.h"

struct pair {
	const char *typed, *meant;
};

/* clang-format off */
static const struct pair dests[] = {
	{ "memory", "shm" }, { "mem", "shm" }, { "ram", "shm" }, { "tmpfs", "shm" },
	{ "ramdisk", "shm" }, { "disk", "ssd" }, { "nvme", "ssd" }, { "local", "ssd" },
	{ "localdisk", "ssd" }, { NULL, NULL },
};

static const struct pair keys[] = {
	{ "strip-components", "strip" }, { "strip_components", "strip" }, { "sha256", "verify" },
	{ "checksum", "verify" }, { "size", "max" }, { "maxsize", "max" }, { "limit", "max" },
	{ "ttl", "keep" }, { "retain", "keep" }, { "cache", "keep" }, { "path", "subdir" },
	{ "dir", "subdir" }, { "pattern", "include" }, { "glob", "include" }, { "fail", "onfail" },
	{ "recursive", "nested" }, { "mode", "method" }, { "symlinks", "links" },
	{ "tier", "dest" }, { "dest", "dest" },
	{ "to", "dest" }, { "target", "dest" }, { NULL, NULL },
};

/* Words that mean an option with its value. */
static const struct pair flags[] = {
	{ "copy", "method=copy" }, { "extract", "method=extract" }, { "mount", "method=mount" },
	{ "link", "method=link" }, { "untar", "method=extract" }, { "unpack", "method=extract" },
	{ "unzip", "method=extract" }, { "hydrate", "hydrate=copy" }, { "shard", "shard=node" },
	{ "recursive", "nested" }, { "follow", "links=follow" }, { "dereference", "links=follow" },
	{ NULL, NULL },
};

static const struct pair values[] = {
	{ "method=untar", "extract" }, { "method=unpack", "extract" }, { "method=unzip", "extract" },
	{ "method=squashfs", "mount" }, { "method=symlink", "link" }, { "method=cp", "copy" },
	{ "shard=nodes", "node" }, { "shard=yes", "node" }, { "shard=even", "node-even" },
	{ "hydrate=yes", "copy" }, { "hydrate=true", "copy" }, { "onfail=skip", "ignore" },
	{ "links=copy", "follow" }, { "links=yes", "follow" }, { "onfail=continue", "ignore" },
	{ "onfail=error", "fail" }, { "verify=sha256sum", "sha256" },
	{ NULL, NULL },
};
/* clang-format on */

static const char *look_up(const struct pair *pairs, const char *typed)
{
	for (; pairs->typed; pairs++)
		if (strutil_equal(pairs->typed, typed))
			return pairs->meant;
	return NULL;
}

const char *dataset_slip_find_dest(const char *typed)
{
	return look_up(dests, typed);
}

const char *dataset_slip_find_key(const char *typed)
{
	return look_up(keys, typed);
}

const char *dataset_slip_find_flag(const char *typed)
{
	return look_up(flags, typed);
}

/* Changes "2hours" to "2h" and "1:30:00" to "1h30m0s". */
static void fix_time(char *value)
{
	unsigned hours, minutes, seconds;
	size_t n = strspn(value, "0123456789.");
	char rest;
	uint64_t ms;

	if (sscanf(value, "%3u:%2u:%2u%c", &hours, &minutes, &seconds, &rest) == 3) {
		snprintf(value, DATASET_SLIP_VALUE_SIZE, "%uh%um%us", hours, minutes, seconds);
		return;
	}
	if (parse_duration(value, &ms) == 0 || n == 0 || !strchr("hmsdHMSD", value[n]))
		return;
	value[n] = strutil_lower(value[n]);
	value[n + 1] = '\0';
}

static void fix_verify(char *value)
{
	char digest[65];

	if (strspn(value, "0123456789abcdefABCDEF") == 64 && !value[64]) {
		memcpy(digest, value, sizeof(digest));
		snprintf(value, DATASET_SLIP_VALUE_SIZE, "sha256:%s", digest);
	} else if (strutil_begin(value, "sha256=")) {
		value[strlen("sha256")] = ':';
	}
}

/* Removes the value of a flag if it means yes. Returns false if it means no. */
static bool fix_flag(char *value)
{
	bool yes = true;

	if (*value && (parse_bool(value, &yes) < 0 || !yes))
		return false;
	*value = '\0';
	return true;
}

bool dataset_slip_fix_value(const char *key, char value[static DATASET_SLIP_VALUE_SIZE])
{
	char both[DATASET_SLIP_VALUE_SIZE + 32];
	const char *meant;
	bool flag;

	if (dataset_option_is_known(key, strlen(key), &flag) && flag)
		return fix_flag(value);
	snprintf(both, sizeof(both), "%s=%s", key, value);
	meant = look_up(values, both);
	if (!meant)
		meant = dataset_option_nearest_value(key, value);
	if (meant)
		snprintf(value, DATASET_SLIP_VALUE_SIZE, "%s", meant);
	else if (!strcmp(key, "verify"))
		fix_verify(value);
	else if (!strcmp(key, "keep") || !strcmp(key, "timeout") || !strcmp(key, "stall"))
		fix_time(value);
	else if (!strcmp(key, "subdir"))
		memmove(value, value + strspn(value, "/"), strlen(value + strspn(value, "/")) + 1);
	return true;
}
