#!/bin/bash
# A job that makes an image of a directory, with several cores. Later jobs mount the image.
#SBATCH --ntasks=1 --cpus-per-task=2 --mem=8G --time=1:00:00

stagectl pack --if-missing "$HOME/data/set" "$HOME/data/set.sqsh"
