#!/bin/bash
# One big file (HDF5, Arrow, FFCV): copied into memory, where many random reads and mmap() cost
# nothing. The path is the file's.
#SBATCH --nodes=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=train=$HOME/data/train.h5

python3 train.py "$STAGE_DATA_PATH_TRAIN"
