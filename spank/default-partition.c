#include "spank/default-partition.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define MAX_DEPTH 4 /* of files that include others */

struct reading {
	char *name;
	size_t size;
	bool is_found, may_change;
};

static int read_file(struct reading *r, const char *path, unsigned depth);

/* "KEY=" at the beginning of word, in any case: what follows; else NULL. */
static const char *get_value(const char *word, const char *key)
{
	const size_t n = strlen(key);

	return !strncasecmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static bool is_set(const char *word, const char *key)
{
	const char *value = get_value(word, key);

	return value && *value;
}

/* "Include FILE", where FILE may stand beside the one that names it */
static int include(struct reading *r, const char *path, const char *file, unsigned depth)
{
	const char *slash = strrchr(path, '/');
	char full[PATH_MAX];
	int n;

	if (*file == '/' || !slash)
		return read_file(r, file, depth + 1);
	n = snprintf(full, sizeof(full), "%.*s/%s", (int)(slash - path), path, file);
	return n < (int)sizeof(full) ? read_file(r, full, depth + 1) : -ENAMETOOLONG;
}

static int read_line(struct reading *r, const char *path, char *line, unsigned depth)
{
	static const char blanks[] = " \t\r\n";
	const char *partition = NULL, *value;
	char *rest, *word;

	line[strcspn(line, "#")] = '\0';
	word = strtok_r(line, blanks, &rest);
	if (word && !strcasecmp(word, "Include")) {
		word = strtok_r(NULL, blanks, &rest);
		return word ? include(r, path, word, depth) : 0;
	}
	for (; word; word = strtok_r(NULL, blanks, &rest)) {
		r->may_change |= is_set(word, "JobSubmitPlugins") ||
				 is_set(word, "CliFilterPlugins");
		value = get_value(word, "PartitionName");
		partition = value ? value : partition;
		value = get_value(word, "Default");
		if (partition && value && !strcasecmp(value, "YES"))
			r->is_found = snprintf(r->name, r->size, "%s", partition) < (int)r->size;
	}
	return 0;
}

/* Returns the length of the line without the "\" at its end, outside of a comment, by which the
 * next line continues it; or 0. */
static size_t find_continuation(const char *line)
{
	size_t n = strcspn(line, "#\r\n");

	while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		n--;
	return n > 0 && line[n - 1] == '\\' ? n - 1 : 0;
}

/* Reads a line and the lines that continue it. Returns false at the end of the file. */
static bool next_line(FILE *f, char **linep, size_t *sizep)
{
	_cleanup_(freep) char *more = NULL;
	size_t size = 0, n;
	char *joined;

	if (getline(linep, sizep, f) < 0)
		return false;
	while ((n = find_continuation(*linep)) > 0 && getline(&more, &size, f) >= 0) {
		joined = realloc(*linep, n + strlen(more) + 1);
		if (!joined)
			return false;
		strcpy(joined + n, more);
		*linep = joined;
		*sizep = n + strlen(more) + 1;
	}
	return true;
}

static int read_file(struct reading *r, const char *path, unsigned depth)
{
	_cleanup_(file_closep) FILE *f = depth < MAX_DEPTH ? fopen(path, "re") : NULL;
	_cleanup_(freep) char *line = NULL;
	size_t size = 0;
	int err = 0;

	if (!f)
		return depth < MAX_DEPTH ? -errno : -ELOOP;
	while (err == 0 && next_line(f, &line, &size))
		err = read_line(r, path, line, depth);
	return err;
}

int default_partition_read(const char *path, char *name, size_t size)
{
	struct reading r = { .name = name, .size = size };
	const int err = read_file(&r, path, 0);

	if (err < 0)
		return err;
	if (r.may_change)
		return -EAGAIN;
	return r.is_found ? 0 : -ENOENT;
}

int default_partition_get(char *name, size_t size)
{
	static const char *const usual[] = { "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf",
					     "/etc/slurm-llnl/slurm.conf" };
	const char *path = getenv("SLURM_CONF");

	if (path && *path)
		return default_partition_read(path, name, size);
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (access(usual[i], R_OK) == 0)
			return default_partition_read(usual[i], name, size);
	return -ENOENT;
}
