#include "spank/client-args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/slurm/sbatch-words.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/parse.h"

/* SPANK gives a plugin no access to Slurm's own options, so they are read from the command line. If
 * common/slurm/sbatch-words.c does not know an option of a later Slurm, at worst a warning becomes
 * a refusal, or a refusal becomes a warning. */
#define MAX_FILE (1024 * 1024)

/* Of several values in one source, Slurm uses the last one. The command line wins over the
 * environment, and both win over the script. Returns false if an earlier source gave a value. */
static bool may_set(const struct client_args *args, unsigned *fromp)
{
	if (*fromp && *fromp != args->source)
		return false;
	*fromp = args->source;
	return true;
}

/* Cuts a list that is too long after a complete name. */
static void set_partition(struct client_args *args, const char *value)
{
	size_t size = sizeof(args->partition);
	char *comma;

	if (!value || !may_set(args, &args->partition_from))
		return;
	args->partition[0] = '\0';
	if (snprintf(args->partition, size, "%s", value) < (int)size)
		return;
	comma = strrchr(args->partition, ',');
	if (comma)
		*comma = '\0';
}

/* A wide array is "0-9" or "1,3". A single task ("7") is not wide, nor is "0-9%1", whose tasks run
 * one after the other. */
static void set_array(struct client_args *args, const char *value)
{
	const char *limit = value ? strchr(value, '%') : NULL;

	if (!value || !may_set(args, &args->array_from))
		return;
	args->is_wide_array = strpbrk(value, ",-") && !(limit && !strcmp(limit, "%1"));
}

/* Both options may be given; their names are added up. */
static void set_gres(struct client_args *args, const char *value, bool tres)
{
	char *names = tres ? args->tres_names : args->gres_names;

	if (!value || !may_set(args, tres ? &args->tres_from : &args->gres_from))
		return;
	names[0] = '\0';
	gres_add(names, value, tres);
	strcpy(args->gres, args->gres_names);
	gres_join(args->gres, args->tres_names);
}

static void set_memory(struct client_args *args, const char *value)
{
	if (!value || !may_set(args, &args->memory_from))
		return;
	if (parse_slurm_memory(value, &args->memory) < 0)
		args->memory = 0;
}

static void take(void *arg, const struct sbatch_option *o)
{
	struct client_args *args = arg;
	const char *name = o->name;

	if (!strcmp(name, "dependency") || !strcmp(name, "d") || !strcmp(name, "begin") ||
	    !strcmp(name, "b"))
		args->starts_later |= o->value && strcmp(o->value, "now");
	else if (!strcmp(name, "partition") || !strcmp(name, "p"))
		set_partition(args, o->value);
	else if (!strcmp(name, "reservation") || !strcmp(name, "clusters") || !strcmp(name, "M") ||
		 !strcmp(name, "cluster"))
		args->partition_by_other = true;
	else if (!strcmp(name, "array") || !strcmp(name, "a"))
		set_array(args, o->value);
	else if (!strcmp(name, "gres") || !strcmp(name, "tres-per-node"))
		set_gres(args, o->value, *name == 't');
	else if (!strcmp(name, "mem"))
		set_memory(args, o->value);
	else if (!strcmp(name, "wrap"))
		args->is_wrapped = true;
}

void client_args_read(struct client_args *args, const char *words, size_t size)
{
	const char *script;

	args->source++;
	script = sbatch_words_read(words, size, take, args);
	if (script)
		args->script = script;
}

void client_args_read_script(struct client_args *args, const char *text)
{
	args->source++;
	(void)sbatch_words_read_script(text, take, args);
}

void client_args_read_environment(struct client_args *args, const char *client)
{
	static const char *const names[] = { "DEPENDENCY",   "BEGIN",	    "PARTITION",
					     "ARRAY_INX",    "GRES",	    "TRES_PER_NODE",
					     "MEM_PER_NODE", "RESERVATION", "CLUSTERS" };
	const char *prefix = !strcmp(client, "sbatch")	 ? "SBATCH"
			     : !strcmp(client, "salloc") ? "SALLOC"
							 : "SLURM";
	char name[64];

	args->source++;
	args->partition_by_other |= getenv("SLURM_CLUSTERS") != NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value;

		snprintf(name, sizeof(name), "%s_%s", prefix, names[i]);
		value = getenv(name);
		if (value && !strcmp(names[i], "PARTITION"))
			set_partition(args, value);
		else if (value && !strcmp(names[i], "ARRAY_INX"))
			set_array(args, value);
		else if (value && !strcmp(names[i], "MEM_PER_NODE"))
			set_memory(args, value);
		else if (value && (!strcmp(names[i], "GRES") || !strcmp(names[i], "TRES_PER_NODE")))
			set_gres(args, value, *names[i] == 'T');
		else if (value &&
			 (!strcmp(names[i], "RESERVATION") || !strcmp(names[i], "CLUSTERS")))
			args->partition_by_other = true;
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
	client_args_read_environment(args, program_invocation_short_name);
	if (!strcmp(program_invocation_short_name, "sbatch") && !args->is_wrapped) {
		script = read_text(args->script ? args->script : "/dev/stdin", &size);
		args->partition_by_other |= !script;
	}
	if (script)
		client_args_read_script(args, script);
	args->script = NULL; /* it points into words */
}
