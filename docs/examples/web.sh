#!/bin/bash
# From the web, if the site allows the address: the archive is extracted while it is downloaded, and
# is not stored. With verify=, the dataset fails if the archive does not have this checksum.
#SBATCH --nodes=1 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=https://data.example.org/images.tar::verify=sha256:0000000000000000000000000000000000000000000000000000000000000000

srun python3 train.py "$STAGE_DATA_PATH_IMAGES"
