#!/bin/bash
# All objects below a prefix, with your keys. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY when
# you submit, or write the keys to ~/.aws/credentials.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=s3://bucket/images/

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
