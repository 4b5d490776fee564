/*
 * default-partition: where a job goes that names no partition, as the files of Slurm's
 * configuration on this machine have it.
 *
 * Slurm itself would have to be asked for what the controller has, and a submission does not wait
 * for one answer more.
 */
#pragma once

#include <stddef.h>

/*
 * The partition with Default=YES in the file at path and in what it includes, to name. -ENOENT:
 * there is none; -EAGAIN: a plugin of the controller or of sbatch may choose another one
 * (JobSubmitPlugins=, CliFilterPlugins=);
 * -errno: a file can't be read.
 */
int default_partition_read(const char *path, char *name, size_t size);

/* The same of the file that Slurm's commands read here: SLURM_CONF, or one of the usual places. */
int default_partition_get(char *name, size_t size);
