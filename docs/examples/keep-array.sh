#!/bin/bash
# An array over one dataset: the first task on a node stages it to the disk, the others, and jobs of
# the next two hours, find it there. Where the site has no MaxKeep= each task stages its own.
#SBATCH --array=0-3 --ntasks=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar:ssd:keep=2h

srun python3 train.py "$STAGE_DATA_PATH_IMAGES" "$SLURM_ARRAY_TASK_ID"
