/*
 * source-rules: decides whether a dataset may be staged here, and where to. It compares the text of
 * one item with the site's configuration and opens nothing. The plugin calls it at submission,
 * `stagectl explain` anywhere, and stagingd on the node. The answer of stagingd is the one that
 * counts. The worker checks the source again when it has opened it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config/conf.h"
#include "common/dataset/dataset.h"

struct error;

struct source_rules_input {
	const struct conf *conf;
	const char *user;
	const char *const *groups;
	size_t n_groups;
	const char *gres;	   /* generic resources of the job (gres.h); NULL: none */
	bool permissive;	   /* see conf_run_is_free(): everything that the user may read is
				    * allowed */
	struct conf_expand expand; /* for the paths of tiers */
};

struct source_rules {
	char *rule;	  /* name of the [source] section */
	char *rule_match; /* Match= of the rule */
	char *web;	  /* rules that the worker applies to web addresses (conf_get_web()) */
	char *methods;	  /* Methods= of the rule */
	char *tiers;	  /* allowed tiers, in order of preference */
	uint64_t max_bytes;
	uint64_t max_readers, max_rate;
};

void source_rules_deinit(struct source_rules *a);

/* Returns 0, or the code of the refusal with a sentence. Resolves a catalogue name: replaces
 * source, scheme, method and checksum in *d by those of the site. */
int source_rules_apply(struct source_rules *a, const struct source_rules_input *in,
		       struct dataset *d, struct error *err);

/* The single checks, for callers that know only a part of the facts. d: a dataset whose catalogue
 * name is resolved. Both return 0, or STAGE_EXIT_REFUSED with a message. */

/* Checks whether the rule allows the dataset, whatever its DEST is. */
int source_rules_check(const struct conf_source *rule, const struct dataset *d, struct error *err);

/* Checks whether the rule allows DEST. t: the tier with that name or path; NULL: there is none. */
int source_rules_check_tier(const struct conf_source *rule, const struct conf_tier *t,
			    const char *gres, const struct dataset *d, struct error *err);

/* Returns the reason why keep= has no effect for data that is staged to t; NULL: it has an effect.
 * t is NULL if nothing is staged. */
const char *source_rules_refuse_keep(const struct conf_tier *t, const struct dataset *d);

/* Returns the tier whose path contains an absolute DEST; NULL: none. */
const struct conf_tier *source_rules_find_tier(const struct conf *conf, const struct conf_expand *e,
					       const char *dest);
