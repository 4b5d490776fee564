#!/bin/bash
# To be started on the login node: a shell on a compute node, which is there at once, while the data
# comes behind. In it:
#
#	stagectl wait                  # with a bar; the path when it is done
#	ls $STAGE_DATA_PATH_IMAGES
#
# It goes with the shell.
salloc --nodes=1 --mem=64G --time=1:00:00 --stage-data="images=$HOME/data/images.tar" "$@" srun --pty bash
