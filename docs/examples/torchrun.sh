#!/bin/bash
# One node: the script starts torchrun, and all of its processes read the same copy of the data.
#SBATCH --nodes=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

torchrun --standalone --nproc_per_node="${SLURM_GPUS_ON_NODE:-2}" train.py "$STAGE_DATA_PATH_IMAGES"
