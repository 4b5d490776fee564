#!/bin/bash
# The file is on a file system that compute nodes cannot see, such as a tape archive. A mover, which
# is another job of yours, first copies it to scratch, on a node that sees the file. This job waits
# for the mover. Submit this script with `stagectl submit mover.sh`, or with sbatch if the site has
# installed the cli_filter of stage-data.
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --mem=16G
#SBATCH --time=01:00:00
#SBATCH --stage-data=$HOME/archive/images.tar

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
