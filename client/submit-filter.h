/*
 * submit-filter: `stagectl submit --filter`. The site's cli_filter.lua runs it in sbatch, after the
 * plugin has written its notes (spank/cli-filter.h, etc/cli_filter.lua).
 */
#pragma once

#include <stddef.h>

/*
 * Reads the plugin's notes, starts movers for sources that compute nodes cannot see, writes a value
 * that names the copies, and prints the dependency of the job, if any. Mistakes in the value are
 * left to the plugin, which reports them. args: --account=, --dependency=, --clusters= and
 * --test-only of the job, and --het if it is heterogeneous. Returns an exit status.
 */
int submit_filter(size_t n_args, char **args);
