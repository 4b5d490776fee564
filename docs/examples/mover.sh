#!/bin/bash
# A file that compute nodes can't see, as in an archive: a job of yours on a node that does copies
# it to scratch first, once, and this job waits for it.
# Submit it by `stagectl submit mover.sh`; at sites with our cli_filter, by sbatch.
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --mem=16G
#SBATCH --time=01:00:00
#SBATCH --stage-data=$HOME/archive/images.tar

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
