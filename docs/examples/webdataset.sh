#!/bin/bash
# Shards for webdataset: each node stages its part of them, and they stay tars. A file lists what
# this node has, one path a line: wds.WebDataset(open(sys.argv[1]).read().split()), without
# splitting by node again. shard=node-even drops what doesn't divide, so that all nodes have as
# many.
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=64G --time=1:00:00
#SBATCH --stage-data=shards=$HOME/data/shard-{000..006}.tar::shard=node

srun sh -c 'python3 train.py "$STAGE_DATA_LIST_SHARDS"'
