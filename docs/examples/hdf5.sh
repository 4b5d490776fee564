#!/bin/bash
# One large file (HDF5, Arrow, FFCV) is copied into memory, where random reads and mmap() are fast.
# The variable has the path of the file.
#SBATCH --nodes=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=train=$HOME/data/train.h5

python3 train.py "$STAGE_DATA_PATH_TRAIN"
