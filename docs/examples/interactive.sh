#!/bin/bash
# Start this script on the login node. It opens a shell on a compute node. The shell does not wait
# for the data. In the shell, type:
#
#	stagectl wait                  # shows a progress bar, then prints the path
#	ls $STAGE_DATA_PATH_IMAGES
#
# The data is removed when the shell ends.
salloc --nodes=1 --mem=64G --time=1:00:00 --stage-data="images=$HOME/data/images.tar" "$@" srun --pty bash
