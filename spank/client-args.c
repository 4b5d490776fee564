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

/* clang-format off */
/* sbatch(1), salloc(1) and srun(1), INPUT ENVIRONMENT VARIABLES. Some options have no variable, and
 * a variable of one client is not one of the others. */
static const struct {
	const char *client, *variable, *option;
} variables[] = {
	{ "sbatch", "SBATCH_PARTITION",    "partition" },
	{ "sbatch", "SBATCH_ARRAY_INX",    "array" },
	{ "sbatch", "SBATCH_GRES",         "gres" },
	{ "sbatch", "SBATCH_MEM_PER_NODE", "mem" },
	{ "sbatch", "SBATCH_RESERVATION",  "reservation" },
	{ "sbatch", "SBATCH_CLUSTERS",     "clusters" },
	{ "sbatch", "SLURM_CLUSTERS",      "clusters" },
	{ "salloc", "SALLOC_PARTITION",    "partition" },
	{ "salloc", "SALLOC_GRES",         "gres" },
	{ "salloc", "SALLOC_MEM_PER_NODE", "mem" },
	{ "salloc", "SALLOC_RESERVATION",  "reservation" },
	{ "salloc", "SALLOC_CLUSTERS",     "clusters" },
	{ "salloc", "SLURM_CLUSTERS",      "clusters" },
	{ "srun",   "SLURM_PARTITION",     "partition" },
	{ "srun",   "SLURM_GRES",          "gres" },
	{ "srun",   "SLURM_MEM_PER_NODE",  "mem" },
	{ "srun",   "SLURM_RESERVATION",   "reservation" },
	{ "srun",   "SLURM_CLUSTERS",      "clusters" },
	{ "srun",   "SLURM_DEPENDENCY",    "dependency" },
};
/* clang-format on */

void client_args_read_environment(struct client_args *args, const char *client)
{
	args->source++;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const struct sbatch_option o = { .name = variables[i].option,
						 .value = getenv(variables[i].variable) };

		/* A site may have renamed Slurm's program, for example to srun.real. */
		if (o.value && !strncmp(variables[i].client, client, strlen(variables[i].client)))
			take(args, &o);
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
