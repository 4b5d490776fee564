/*
 * node: what the plugin does as root, in slurmd and its step daemons.
 *
 * No function fails, and none takes longer than its comment says. Failures are reported to the
 * job's tasks (wait-ready.h). conf_path: NULL for the default.
 */
#pragma once

#include "spank/slurm-compat.h"

/* For job_prolog, as root, before the job's first step: starts the keeper and waits at most 500 ms.
 * A keeper without a run directory by then ends, because the epilog would not know of it. */
void node_prolog(spank_t sp, const char *conf_path);

/* For job_epilog, as root: removes the job's data. Takes at most 8 s; after that, the keeper
 * continues in the background. */
void node_epilog(spank_t sp, const char *conf_path);

/* For the start of slurmd, as root: starts the removal of leftovers of a crash, in the
 * background. */
void node_boot(const char *conf_path);

/* For init_post_opt of a step, as root: starts the keeper if no prolog has started it. Waits at
 * most 500 ms. */
void node_step_start(spank_t sp, const char *conf_path);

/* For the exit of the extern step, as root: does the same as node_epilog() if Slurm calls no epilog
 * of plugins. */
void node_extern_exit(spank_t sp, const char *conf_path);

/* Returns the reason why this step could not start the keeper; "": it was started, or is slow. */
const char *node_get_start_error(void);
