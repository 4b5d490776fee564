#include "spank/client-args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/parse.h"

/*
 * SPANK gives a plugin no access to Slurm's own options, so they are read from the command line.
 * To know where the options end one has to know which take a value: those that don't are listed
 * here, which is the shorter list. An option of a later Slurm that is missing costs at most a
 * warning in place of a refusal, or the other way round.
 */
#define MAX_FILE (1024 * 1024)

static const char flags_short[] = "EHhIkKlOQsuvVWXZ";

static const char *const flags_long[] = {
	"bell", "contiguous", "debugger-test", "disable-status", "exact", "exclusive", "external",
	"get-user-env", "help", "hold", "ignore-pbs", "immediate", "interactive", "kill-command",
	"kill-on-bad-exit", "label", "multi-prog", "nice", "no-allocate", "no-bell", "no-kill",
	"no-requeue", "no-shell", "overcommit", "overlap", "oversubscribe", "parsable",
	"preserve-env", "propagate", "pty", "quiet", "quit-on-interrupt", "reboot", "requeue",
	"resv-ports", "share", "spread-job", "test-only", "unbuffered", "usage", "use-min-nodes",
	"verbose", "version", "wait", "wait-all-nodes", "whole",
};

static bool long_takes_value(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags_long); i++)
		if (!strcmp(name, flags_long[i]))
			return false;
	return true;
}

static void set_partition(struct client_args *args, const char *value)
{
	if (value && !args->partition[0])
		snprintf(args->partition, sizeof(args->partition), "%s", value);
}

/* One option, value NULL if none was there. */
static void take(struct client_args *args, const char *name, const char *value)
{
	if (!strcmp(name, "dependency") || !strcmp(name, "d") || !strcmp(name, "begin") ||
	    !strcmp(name, "b"))
		args->starts_later |= value && strcmp(value, "now");
	else if (!strcmp(name, "partition") || !strcmp(name, "p"))
		set_partition(args, value);
}

/* A word of options; next is the one behind it or NULL. True: next was its value. */
static bool take_long(struct client_args *args, const char *word, const char *next)
{
	char name[64];
	const char *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);

	if (n >= sizeof(name))
		return false;
	memcpy(name, word, n);
	name[n] = '\0';
	if (!eq && !long_takes_value(name))
		return false;
	take(args, name, eq ? eq + 1 : next);
	return !eq;
}

static bool take_short(struct client_args *args, const char *word, const char *next)
{
	char name[2] = "";

	for (; *word; word++) {
		if (strchr(flags_short, *word))
			continue;
		name[0] = *word;
		take(args, name, word[1] ? word + 1 : next);
		return !word[1];
	}
	return false;
}

void client_args_read(struct client_args *args, const char *words, size_t size)
{
	const char *p, *next, *end = words + size;

	if (!size || end[-1])
		return;
	for (p = words + strlen(words) + 1; p < end; p = next) {
		next = p + strlen(p) + 1;
		if (p[0] != '-' || !p[1]) {
			args->script = p;
			return;
		}
		if (!strcmp(p, "--")) {
			args->script = next < end ? next : NULL;
			return;
		}
		if (p[1] == '-' ? take_long(args, p + 2, next < end ? next : NULL) :
				  take_short(args, p + 1, next < end ? next : NULL))
			next = next < end ? next + strlen(next) + 1 : end;
	}
}

/* Splits a line into words as sbatch does, as far as it matters here: blanks, quotes, '#'. */
static size_t split_line(const char *line, char *words, size_t size)
{
	size_t n = 0;
	char quote = '\0';

	words[n++] = '\0'; /* in place of the program's name */
	for (; *line && *line != '\n' && n + 2 < size; line++) {
		if (quote ? *line == quote : *line == '"' || *line == '\'')
			quote = quote ? '\0' : *line;
		else if (!quote && *line == '#')
			break;
		else if (quote || (*line != ' ' && *line != '\t'))
			words[n++] = *line;
		else if (words[n - 1])
			words[n++] = '\0';
	}
	if (words[n - 1])
		words[n++] = '\0';
	return n;
}

static const char *next_line(const char *text)
{
	const char *end = strchr(text, '\n');

	return end ? end + 1 : NULL;
}

void client_args_read_script(struct client_args *args, const char *text)
{
	const char *script = args->script;
	char words[4096];

	for (; text && *text; text = next_line(text)) {
		if (!strncmp(text, "#SBATCH", 7) && (text[7] == ' ' || text[7] == '\t'))
			client_args_read(args, words, split_line(text + 8, words, sizeof(words)));
		else if (*text != '#' && *text != '\n')
			break;
	}
	args->script = script;
}

static void read_environment(struct client_args *args, const char *client)
{
	static const char *const names[] = { "DEPENDENCY", "BEGIN", "PARTITION" };
	const char *prefix = !strcmp(client, "sbatch") ? "SBATCH" :
			     !strcmp(client, "salloc") ? "SALLOC" : "SLURM";
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value;

		snprintf(name, sizeof(name), "%s_%s", prefix, names[i]);
		value = getenv(name);
		if (value && !strcmp(names[i], "PARTITION"))
			set_partition(args, value);
		else if (value)
			args->starts_later = true;
	}
}

static char *read_text(const char *path, size_t *sizep)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fd_read_file(fd, MAX_FILE, &text, sizep) < 0)
		return NULL;
	return text;
}

void client_args_get(struct client_args *args)
{
	_cleanup_(freep) char *words = NULL, *script = NULL;
	size_t size;

	*args = (struct client_args){ 0 };
	words = read_text("/proc/self/cmdline", &size);
	if (!words)
		return;
	client_args_read(args, words, size);
	read_environment(args, program_invocation_short_name);
	if (args->script && !strcmp(program_invocation_short_name, "sbatch"))
		script = read_text(args->script, &size);
	if (script)
		client_args_read_script(args, script);
	args->script = NULL; /* lent by words */
}
