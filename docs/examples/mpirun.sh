#!/bin/bash
# mpirun starts the ranks without srun. All ranks find the data, because the script begins only when
# all nodes have it.
#SBATCH --nodes=2 --ntasks-per-node=2 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

mpirun python3 train.py "$STAGE_DATA_PATH_IMAGES"
