#!/bin/bash
# Several nodes: srun starts one torchrun on each node, which reads that node's own copy. The path
# is the same on all nodes.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=128G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes="$SLURM_NNODES" --nproc_per_node="${SLURM_GPUS_ON_NODE:-2}" \
	--rdzv_backend=c10d --rdzv_id="$SLURM_JOB_ID" --rdzv_endpoint="$head:29500" \
	train.py "$STAGE_DATA_PATH_IMAGES"
