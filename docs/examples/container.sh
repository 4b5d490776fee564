#!/bin/bash
# In a container (Apptainer) the data has to be bound. `stagectl env --apptainer` names all that belongs to it, disks and sources
# behind links included. Where the site has [containers] Export=apptainer, what is in memory or mounted is bound without a word.
#SBATCH --nodes=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

apptainer exec --bind "$(stagectl env --apptainer)" "$HOME/pytorch.sif" python3 train.py "$STAGE_DATA_PATH_IMAGES"
