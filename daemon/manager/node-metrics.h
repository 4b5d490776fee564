/*
 * node-metrics: adds the job's figures to those of the node, and writes the node's figures to the
 * file that the site has set.
 */
#pragma once

#include <stdbool.h>

struct helper_site;
struct manager;

/* Adds k->counts to RUNDIR_METRICS, and lets stage-helper write the sums to [metrics] Textfile, if
 * it is set. Failures are logged. It may take NODE_METRICS_MS, so no process should wait for it. */
void node_metrics_add(struct manager *k);

/* Adds the death of a keeper, and whether it has opened the breaker, if the site wants metrics.
 * site: from helper_get_site(). Takes NODE_METRICS_DEATH_MS at most. */
void node_metrics_add_death(const struct helper_site *site, bool opened);

/* Stores results of the reaper: whether it has closed the breaker (if not, the last value stays),
 * and the number of leftovers that could not be removed. */
void node_metrics_set_reaped(const struct helper_site *site, bool closed, unsigned n_leftovers);
