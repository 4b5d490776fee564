#!/bin/bash
# A directory is copied, here without the raw files, to the first of memory and local disk where it
# fits.
#SBATCH --nodes=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=set=$HOME/data/set::exclude=*.raw

python3 train.py "$STAGE_DATA_PATH_SET"
