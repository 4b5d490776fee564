/*
 * submit: handles the options in sbatch, srun and salloc, as the user.
 */
#pragma once

#include "spank/slurm-compat.h"

/*
 * For init_post_opt of the clients, called once for each component of a heterogeneous job. Reads
 * the values, refuses mistakes (prints one sentence and ends the client with status 1), and
 * publishes the rest to the job. Without the option, reads and opens nothing. conf_path: NULL for
 * the default.
 */
void submit_post_opt(spank_t sp, const char *conf_path);

/* For slurm_spank_init of the clients: removes STAGE_DATA and STAGE_WAIT from the environment, so
 * that a job does not ask again for the datasets of its own submission. */
void submit_init(void);
