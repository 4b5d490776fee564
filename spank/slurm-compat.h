/*
 * slurm-compat: Slurm's plugin interface, and what differs from release to release.
 *
 * The only header that includes Slurm's. The plugin is built once for each major release
 * (22.05, 23.02, …): Slurm refuses a plugin of another one.
 */
#pragma once

#include <slurm/slurm.h>
#include <slurm/spank.h>

/* RunInJob exists from this release on. With it, SPANK's prolog and epilog are never called, and
 * only the extern step's exit is. */
#define COMPAT_HAVE_RUN_IN_JOB (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0))

/* From this release on, a plugin can declare that a failure of its start fails the job and not the
 * node. Our start never fails, but its file may be missing or damaged. */
#define COMPAT_HAVE_INIT_FAILURE_MODE (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0))
