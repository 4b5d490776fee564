/*
 * submit-filter: `stagectl submit --filter`, which a cli_filter of the site calls from within
 * sbatch (spank/cli-filter.h, etc/cli_filter.lua).
 */
#pragma once

#include <stddef.h>

/*
 * Reads what the plugin has noted, sends for what compute nodes can't see, leaves the value that
 * names the copies, and prints the dependency that the job gets, or nothing. What is wrong with the
 * value is left to the plugin, which says it. args: --account=, --dependency=, --clusters=,
 * --test-only as the job has them, and --het if it is heterogeneous. An exit status.
 */
int submit_filter(size_t n_args, char **args);
