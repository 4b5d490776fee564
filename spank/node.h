/*
 * node: what the plugin does as root, in slurmd and its step daemons.
 *
 * No function fails, and none takes longer than its comment says. Failures are reported to the
 * job's tasks (wait-ready.h). conf_path: NULL for the default.
 */
#pragma once

#include "spank/slurm-compat.h"

/* job_prolog, root, before the job's first step: starts the keeper; 500 ms. One that has no run
 * directory by then ends: the epilog would not know of it. */
void node_prolog(spank_t sp, const char *conf_path);

/* job_epilog, as root: removes the job's data. Takes at most 8 s; after that, the keeper continues
 * in the background. */
void node_epilog(spank_t sp, const char *conf_path);

/* Start of slurmd, as root: leftovers of a crash are removed in the background. */
void node_boot(const char *conf_path);

/* init_post_opt of a step, root: starts the keeper where no prolog has done so; 500 ms. */
void node_step_start(spank_t sp, const char *conf_path);

/* exit of the extern step, root: where Slurm runs no epilog for plugins, as node_epilog(). */
void node_extern_exit(spank_t sp, const char *conf_path);

/* Why the keeper could not be started in this step; "": it could, or is slow. */
const char *node_get_start_error(void);
