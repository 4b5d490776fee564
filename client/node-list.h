/*
 * node-list: the jobs that have datasets on this node, or have left some, for root. Read from what
 * stage-keeper leaves below its run directory; nothing there is touched.
 */
#pragma once

struct error;

/* Prints a line of key=value words for each job: job, uid, keeper (alive, dead), bytes (in memory),
 * mounts, workers (living processes), tiers, and failed=1 if nothing could be staged. Returns the
 * number of jobs, or -errno. */
int node_list_print(struct error *err);
