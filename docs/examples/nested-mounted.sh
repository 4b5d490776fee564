#!/bin/bash
# A tar of tars, mounted where it lies: each inner tar is a directory of its name, nothing is
# extracted, and the job needs no room for it. ImageNet's training tar has 138 GiB and 1.3 million
# images; the index takes some 110 MiB of memory.
# `stagectl index --nested $HOME/data/classes.tar`, once, saves each job the reading of the headers.
# `tools/bench nested` measures this in small, beside extraction, an image and the files themselves.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=16G --time=1:00:00
#SBATCH --stage-data=classes=$HOME/data/classes.tar::method=mount+nested

srun python3 train.py "$STAGE_DATA_PATH_CLASSES"
