#!/bin/bash
# In a container (Apptainer) the data has to be bound. `stagectl env --apptainer` names all that belongs to it, sources behind
# links included. Where the site has [containers] Export=apptainer, all that is staged is bound without a word.
#SBATCH --nodes=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

apptainer exec --bind "$(stagectl env --apptainer)" "$HOME/pytorch.sif" python3 train.py "$STAGE_DATA_PATH_IMAGES"
