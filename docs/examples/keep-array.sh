#!/bin/bash
# An array whose tasks read the same dataset. The first task on a node stages the dataset to the
# disk. The other tasks use it there, and so do your later jobs that start within two hours. If the
# site has not set MaxKeep=, each task stages its own copy.
#SBATCH --array=0-3 --ntasks=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar:ssd:keep=2h

srun python3 train.py "$STAGE_DATA_PATH_IMAGES" "$SLURM_ARRAY_TASK_ID"
