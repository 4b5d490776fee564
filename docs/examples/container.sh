#!/bin/bash
# A container (Apptainer) sees the data only if its directory is bound. `stagectl env --apptainer`
# prints all paths that have to be bound, including the targets of links. The paths are the same on
# all nodes. If the site has set Export=apptainer in [containers], the directory is bound without
# --bind. By default, Apptainer also binds the working directory. --nv is for NVIDIA GPUs.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

srun apptainer exec --nv --bind "$(stagectl env --apptainer)" "$HOME/pytorch.sif" python3 train.py "$STAGE_DATA_PATH_IMAGES"
