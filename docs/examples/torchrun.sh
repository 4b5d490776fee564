#!/bin/bash
# One node, torchrun in the script: one copy of the data for all of its processes.
#SBATCH --nodes=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

torchrun --standalone --nproc_per_node="${SLURM_GPUS_ON_NODE:-2}" train.py "$STAGE_DATA_PATH_IMAGES"
