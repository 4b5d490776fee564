/*
 * plan-ask: asks a worker for its plan for an item, without staging the item.
 */
#pragma once

#include <stdint.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

struct conf_source;
struct conf;
struct dataset;
struct error;

struct plan_request {
	uint64_t memory; /* of the job, 0: not limited */
	uint64_t used;	 /* of it */
	uint64_t timeout_ms;
};

struct plan_answer {
	struct kv *facts;   /* the worker's `facts`, NULL: it did not come so far */
	char *rule, *match; /* the site's section that let it in */
	char *tiers;	    /* that the rule allows, with commas */
	uint64_t max_rate;  /* of the rule, 0: none */
	int code;	    /* 0, or the exit status that staging would end with */
	char text[1024];    /* and why */
};

void plan_answer_deinit(struct plan_answer *a);

/*
 * Loads the site's configuration (without one everything is allowed, as in `stagectl run`),
 * finds the rule for d (whose catalogue name is resolved in place) and asks a stage-worker. 0
 * with *a filled, or -errno: the site refuses it, or there was no answer.
 */
int plan_ask(struct plan_answer *a, struct dataset *d, const struct plan_request *request,
	     struct error *err);

/* What would be faster, as lines of text; "" if nothing is known that would be. facts: as above;
 * source: for the examples in it. */
void plan_get_advice(const struct kv *facts, const char *source, char *buf, size_t size);

/* What becomes of keep= in the place that was chosen: how long the dataset is kept, or why it is
 * not; "" where it was not asked for. */
void plan_get_keep(const struct conf *conf, const struct dataset *d, const struct kv *facts,
		   char *buf, size_t size);

/* "tar, 286 MiB", "directory, 12 MiB, 30 files"; "": nothing is known. */
void plan_get_found(const struct kv *facts, char *buf, size_t size);
