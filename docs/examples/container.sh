#!/bin/bash
# In a container (Apptainer) the data has to be bound. `stagectl env --apptainer` names all that
# belongs to it, sources behind links included; the paths are the same on all nodes. Where the site
# has [containers] Export=apptainer, all that is staged is bound without a word. By default,
# Apptainer binds the working directory, too. --nv is for NVIDIA GPUs.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

srun apptainer exec --nv --bind "$(stagectl env --apptainer)" "$HOME/pytorch.sif" python3 train.py "$STAGE_DATA_PATH_IMAGES"
