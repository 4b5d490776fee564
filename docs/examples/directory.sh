#!/bin/bash
# A directory is copied to memory or, if it does not fit there, to the local disk. In this example,
# the files *.raw are left out.
#SBATCH --nodes=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=set=$HOME/data/set::exclude=*.raw

python3 train.py "$STAGE_DATA_PATH_SET"
