/*
 * plan-ask: asks a worker for its plan for an item, without staging the item.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

struct conf_source;
struct conf;
struct dataset;
struct error;

struct plan_request {
	uint64_t memory; /* limit of the job; 0: none */
	uint64_t used;	 /* memory that the job uses already */
	uint64_t timeout_ms;
};

struct plan_answer {
	struct kv *facts;   /* the worker's message `facts`; NULL: the worker sent none */
	char *rule, *match; /* the [source] section that allows the source, and its Match= */
	char *tiers;	    /* allowed by the rule, separated by commas */
	uint64_t max_rate;  /* of the rule; 0: none */
	int code;	    /* 0, or the exit status that staging would have */
	char text[1024];    /* the reason for the code */
};

/* Reads how much memory the job may still use, on a node of a job. Elsewhere the user asks about a
 * job that does not run on this machine. */
void plan_look_for_memory(struct plan_request *q);

void plan_answer_deinit(struct plan_answer *a);

/* Loads the site's configuration; without one everything is allowed, as in `stagectl run`. Finds
 * the rule for d, whose catalogue name is resolved in place, and asks a stage-worker. Returns 0
 * with *a filled, or -errno if the site refuses the dataset or there was no answer. */
int plan_ask(struct plan_answer *a, struct dataset *d, const struct plan_request *request,
	     struct error *err);

/* Returns whether the error of plan_ask() is about this dataset, so that others can be asked
 * about. */
bool plan_is_answer(const struct error *err);

/* Writes lines of text about a faster way, or "" if none is known. facts: as above; source: used in
 * the examples. */
void plan_get_advice(const struct kv *facts, const char *source, char *buf, size_t size);

/* Writes the effect of keep= in the chosen tier: how long the dataset is kept, or why it is not
 * kept; "" if keep= was not given. */
void plan_get_keep(const struct conf *conf, const struct dataset *d, const struct kv *facts,
		   char *buf, size_t size);

/* "tar, 286 MiB", "directory, 12 MiB, 30 files"; "": nothing is known. */
void plan_get_found(const struct kv *facts, char *buf, size_t size);
