/*
 * options: --stage-data and --stage-wait as Slurm hands them to us, one call an occurrence.
 *
 * Slurm forwards only the last of several values and does not say where one came from; here they
 * are kept apart by origin until init_post_opt takes them. The callbacks never refuse, because they
 * could not print a reason. init_post_opt refuses instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/slurm-compat.h"

#define OPTIONS_MAX_VALUES 1024 /* kept per origin; further values are only counted */

enum options_origin {
	OPTIONS_INHERITED, /* from the job in which this command runs, through the environment */
	OPTIONS_SCRIPT,	   /* an #SBATCH line */
	OPTIONS_COMMAND_LINE,
};

struct options_values {
	const char **values;
	size_t n_values;
	size_t n_given; /* including those that were not kept */
};

struct options {
	struct options_values script, command_line;  /* of --stage-data */
	const char *wait_script, *wait_command_line; /* of --stage-wait; NULL: not given */
	bool no_memory;
};

/* Registers both options. For slurm_spank_init, in each context that has options. */
void options_register(spank_t sp);

/* Returns the options that were given since the last options_reset(); lent. */
const struct options *options_get(void);

/* Forgets all values, before the next component of a heterogeneous job. */
void options_reset(void);

/* Returns where a value came from. inherited: the result of getenv() for the inherited value;
 * cmdline_start and cmdline_end: bounds of this process's command line in memory; can_have_script:
 * this client reads scripts. The callbacks use it; public for tests. */
enum options_origin options_find_origin(const char *value, const char *inherited,
					uintptr_t cmdline_start, uintptr_t cmdline_end,
					bool can_have_script);

/* Reads arg_start and arg_end from the text of /proc/PID/stat. Returns 0 or -EINVAL. */
int options_parse_stat(const char *stat, uintptr_t *startp, uintptr_t *endp);

/* The variables by which a job passes the options to the commands that it runs. */
#define OPTIONS_ENV_DATA "SLURM_SPANK__SLURM_SPANK_OPTION_stage_data_stage_data"
#define OPTIONS_ENV_WAIT "SLURM_SPANK__SLURM_SPANK_OPTION_stage_data_stage_wait"
