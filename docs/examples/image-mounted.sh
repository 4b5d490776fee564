#!/bin/bash
# A squashfs image (made by `stagectl pack DIRECTORY images.sqsh`) is mounted in place: the data is
# ready at once and needs little memory, and each node opens only one file of the shared file
# system. If the job reads the image more than once, write
# `$HOME/data/images.sqsh::hydrate=copy`: the image is copied to the node while the job reads it.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.sqsh

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
