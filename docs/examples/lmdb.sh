#!/bin/bash
# An LMDB database is a directory with the file data.mdb. In Python, open it by
# lmdb.open(path, readonly=True, lock=False).
#SBATCH --nodes=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=train=$HOME/data/train.lmdb

python3 train.py "$STAGE_DATA_PATH_TRAIN"
