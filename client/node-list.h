/*
 * node-list: the jobs that have datasets on this node, or have left some, for root. Read from what
 * stage-keeper leaves below its run directory; nothing there is touched.
 */
#pragma once

struct error;

/* Prints a line of key=value words for each: job, uid, keeper (alive, dead), bytes (in memory),
 * mounts, workers (living processes), tiers; failed=1 where nothing could be staged. How many, or
 * -errno. */
int node_list_print(struct error *err);
