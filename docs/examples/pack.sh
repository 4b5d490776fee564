#!/bin/bash
# Makes an image of a directory, once, on the cores of a job: what the next jobs mount is one file.
#SBATCH --ntasks=1 --cpus-per-task=2 --mem=8G --time=1:00:00

stagectl pack --if-missing "$HOME/data/set" "$HOME/data/set.sqsh"
