/*
 * client-args: facts from the command line of sbatch, srun or salloc that SPANK does not provide.
 *
 * Whether the job starts later (then a missing source is a warning only), the partition, the
 * generic resources, and whether it is an array whose tasks may run side by side. It is a reading
 * aid, not a second parser of Slurm's options: what it can't see it reports as not given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/slurm/gres.h"

struct client_args {
	bool starts_later;	    /* --dependency or --begin */
	bool is_wide_array;	    /* --array: more than one task may run at a time */
	bool is_wrapped;	    /* --wrap: there is no script */
	char gres_names[GRES_SIZE]; /* from --gres */
	char tres_names[GRES_SIZE]; /* from --tres-per-node */
	char gres[GRES_SIZE];	    /* from both (gres.h) */
	uint64_t memory;	    /* of --mem, bytes a node; 0: not given, or all of the node's */
	char partition[1024];	    /* as given, maybe a list; "" if not */
	bool partition_by_other;    /* --reservation, --clusters or an unread script may set it */
	unsigned source;	    /* number of the command line, environment or script */
	unsigned partition_from, array_from, gres_from, tres_from, memory_from; /* 0: not given */
	const char *script; /* first word that is not an option; lent, or NULL */
};

/* Reads words, NUL-separated and NUL-terminated, as in /proc/PID/cmdline (the first one, the
 * program's name, is skipped). Fields of *args that the words do not set are left unchanged. */
void client_args_read(struct client_args *args, const char *words, size_t size);

/* Reads the input variables of client ("sbatch", "salloc" or another one, which is srun). Values
 * from the command line take precedence. */
void client_args_read_environment(struct client_args *args, const char *client);

/* Reads the #SBATCH lines at the top of a script's text. Values from the command line take
 * precedence. */
void client_args_read_script(struct client_args *args, const char *text);

/* Reads this process's command line, the script (the file that it names, or stdin if that is a
 * file), and Slurm's input variables. */
void client_args_get(struct client_args *args);
