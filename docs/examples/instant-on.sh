#!/bin/bash
# An image that is read more than once: it is mounted in place at once, and copied to the node while
# the job reads it.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.sqsh::hydrate=copy

for epoch in 1 2; do
	srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
done
