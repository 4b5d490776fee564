/*
 * stage-slurm: the program that asks Slurm by libslurm (daemon/slurm). It comes with the plugin. It
 * may be missing, or be one of another release that can't be loaded. Then squeue and scontrol are
 * asked, which take the same arguments.
 */
#pragma once

#include "stage-build.h"

#define STAGE_SLURM_NAME "stage-slurm"
#define STAGE_SLURM_PATH STAGE_LIBEXEC_DIR "/" STAGE_SLURM_NAME

/* Exit statuses. All others, including 127 for a program that could not be loaded, mean the same as
 * STAGE_SLURM_UNABLE. */
enum {
	STAGE_SLURM_OK = 0,
	STAGE_SLURM_UNABLE = 1,	 /* no answer; ask squeue */
	STAGE_SLURM_REFUSED = 3, /* Slurm's answer is an error; it is on stderr */
};
