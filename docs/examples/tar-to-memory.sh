#!/bin/bash
# A tar (.tar, .tar.gz, .tar.zst, .tar.xz, ...) is extracted into the memory of each node. The
# script begins when all nodes have the files. Data in memory counts towards --mem.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
