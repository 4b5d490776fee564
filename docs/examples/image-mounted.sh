#!/bin/bash
# A squashfs image (made by `stagectl pack DIRECTORY images.sqsh`) is mounted where it lies: the
# data is there in an instant, takes no memory, and the shared file system sees one open file.
# Read more than once? `$HOME/data/images.sqsh::hydrate=copy` copies it to the node behind the first
# readers.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.sqsh

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
