#!/bin/bash
# Shards for webdataset are copied and stay tar files. Each node stages its part of them. A file
# lists the shards of this node, one path on each line. Use it as
# wds.WebDataset(open(sys.argv[1]).read().split()), and do not split by node again.
# shard=node-even gives all nodes the same number of shards, and leaves out the rest.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=shards=$HOME/data/shard-{000..006}.tar::shard=node

srun sh -c 'python3 train.py "$STAGE_DATA_LIST_SHARDS"'
