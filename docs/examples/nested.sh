#!/bin/bash
# A tar of tars, as ImageNet's with one for each class: each becomes a directory of its name, and none of them is stored.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=200G --time=1:00:00
#SBATCH --stage-data=classes=$HOME/data/classes.tar::nested

srun python3 train.py "$STAGE_DATA_PATH_CLASSES"
