/*
 * admit: decides whether a dataset may be staged here, and where to. It compares the text of one
 * item with the site's configuration and opens nothing. The plugin calls it at submission,
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

struct admit_input {
	const struct conf *conf;
	const char *user;
	const char *const *groups;
	size_t n_groups;
	const char *gres;	   /* of the job: gres.h; NULL: none */
	bool permissive;	   /* conf_run_is_free(): everything of one's own is allowed */
	struct conf_expand expand; /* for the paths of tiers */
};

struct admit {
	char *rule;	  /* name of the section */
	char *rule_match; /* its pattern */
	char *web;	  /* for the worker, of addresses (conf_get_web()) */
	char *methods;	  /* as the section has them */
	char *tiers;	  /* those that may be used, in order of preference */
	uint64_t max_bytes;
	uint64_t max_readers, max_rate;
};

void admit_deinit(struct admit *a);

/*
 * 0, or the code and the sentence of the refusal. A name of the catalog is resolved: source,
 * scheme, method and checksum in *d are replaced by those of the site.
 */
int admit_dataset(struct admit *a, const struct admit_input *in, struct dataset *d,
		  struct error *err);

/* Its single checks, for callers that have only a part of the facts. d: with the catalogue's name
 * resolved. Both return 0, or STAGE_EXIT_REFUSED and the message. */

/* Does the rule let it in, wherever it goes? */
int admit_check_rule(const struct conf_source *rule, const struct dataset *d, struct error *err);

/* May it go where its DEST says? t: the tier of that name or path, NULL: there is none. */
int admit_check_tier(const struct conf_source *rule, const struct conf_tier *t, const char *gres,
		     const struct dataset *d, struct error *err);

/* The reason why keep= has no effect for data that is staged to t; NULL: it has an effect. t is
 * NULL if nothing is staged.
 */
const char *admit_refuse_keep(const struct conf_tier *t, const struct dataset *d);

/* The tier whose path holds an absolute DEST; NULL if none. */
const struct conf_tier *admit_find_tier(const struct conf *conf, const struct conf_expand *e,
					const char *dest);
