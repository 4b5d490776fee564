#!/bin/bash
# A tar of tars: each inner tar is extracted into a directory with its name, and is not stored.
# ImageNet's training tar has 138 GiB in a tar for each class. By default, datasets may use half of
# --mem.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=300G --time=1:00:00
#SBATCH --stage-data=classes=$HOME/data/classes.tar::nested

srun python3 train.py "$STAGE_DATA_PATH_CLASSES"
