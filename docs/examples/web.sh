#!/bin/bash
# From the web, as far as the site allows: the archive is opened as it comes, and stored nowhere.
# With verify= it is what it was.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=https://data.example.org/images.tar::verify=sha256:0000000000000000000000000000000000000000000000000000000000000000

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
