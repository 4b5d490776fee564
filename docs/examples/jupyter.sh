#!/bin/bash
# A Jupyter server on the node that has the data. The job's output shows the ssh command for the
# tunnel. In the notebook, the path of the data is os.environ["STAGE_DATA_PATH_IMAGES"].
#SBATCH --nodes=1 --mem=64G --time=4:00:00
#SBATCH --stage-data=images=$HOME/data/images.tar

port=$((20000 + SLURM_JOB_ID % 10000))
echo "ssh -N -L 8888:$(hostname):$port $SLURM_SUBMIT_HOST, then http://localhost:8888 with the token below"
jupyter lab --no-browser --ip="$(hostname)" --port="$port"
