#!/bin/bash
# A tar of tars, mounted in place: each inner tar is shown as a directory with the tar's name.
# Nothing is extracted, so the job needs no space for the files. ImageNet's training tar has 138 GiB
# and 1.3 million JPEG files; its index takes about 110 MiB of memory. Run this command once, so
# that jobs do not have to read the headers: `stagectl index --nested $HOME/data/classes.tar`.
# `tools/bench nested` compares this with extraction, an image and single files, on small data.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=classes=$HOME/data/classes.tar::method=mount+nested

srun python3 train.py "$STAGE_DATA_PATH_CLASSES"
