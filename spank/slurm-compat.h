/*
 * slurm-compat: Slurm's plugin interface, and what differs from release to release.
 *
 * The only header that includes Slurm's. The plugin is built once for each major release
 * (22.05, 23.02, …): Slurm refuses a plugin of another one.
 */
#pragma once

#include <slurm/slurm.h>
#include <slurm/spank.h>

/* RunInJob (SPANK prolog and epilog are never called, the extern step's exit is all there is)
 * exists from here on. */
#define COMPAT_HAVE_RUN_IN_JOB (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0))

/* From here on a plugin may say that its failing start fails the job and not the node. Ours
 * never fails, but its file may be missing or broken. */
#define COMPAT_HAVE_INIT_FAILURE_MODE (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0))
