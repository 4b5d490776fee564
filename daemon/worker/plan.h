/*
 * plan: decides how a dataset is staged. The decision depends on the facts about the source, the
 * user's options, the site's rules, and the free space. It is a pure function: it reads no file
 * and no clock, and sends no message.
 *
 * If the planner falls back to another method, the result has the same type: a directory that was
 * promised is not replaced by a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "daemon/worker/policy.h"

struct error;

#define PLAN_TIER_MEMORY "shm"
#define PLAN_TIER_DISK "ssd"
#define PLAN_TIER_SHARED "scratch"
#define PLAN_TIER_SOURCE "source" /* nothing is copied: a mount in place, or a link */

#define PLAN_MAX_TIERS 8
#define PLAN_WHY_SIZE 2048

/* Free space for a dataset in one tier. */
struct plan_space {
	const char *tier; /* a name, or the absolute path that the user gave as DEST */
	bool present;	  /* this node has such a tier */
	bool known;	  /* free_bytes and free_files were measured */
	uint64_t free_bytes;
	uint64_t free_files;
	char limit[128]; /* text about the tightest limit: "the node has 62.0 GiB of memory to
			  * spare" */
	bool of_node;	 /* the limit is the node's, so more memory for the job would not help */
};

/* What the code supports, by the table of stagers. */
struct plan_ability {
	bool can_copy, can_extract, can_mount, can_link;
	bool has_images;    /* this build supports squashfs images and mounts */
	bool can_broadcast; /* the first node can send the data to the others */
};

struct plan_input {
	const struct dataset *ds;
	const struct facts *facts;
	const struct policy *policy;
	struct plan_ability able;
	struct plan_space spaces[PLAN_MAX_TIERS];
	size_t n_spaces;
};

struct plan {
	enum dataset_method method;	 /* never auto */
	char tier[DATASET_MAX_ITEM];	 /* PLAN_TIER_*, or the absolute path of DEST */
	enum source_kind kind;		 /* result for the user: SOURCE_FILE or SOURCE_DIR */
	bool copy_first;		 /* mount only: the image is copied to the tier and mounted
					  * from there */
	bool broadcast;			 /* read once for all nodes of the job (broadcast.h) */
	uint64_t need_bytes, need_files; /* to be reserved in the tier; 0: nothing */
	char line[256];			 /* "extract to memory, about 148 GiB" */
	char hint[384];			 /* how else the source could be understood; "": no hint */
	char why[PLAN_WHY_SIZE];	 /* one reason on each line */
};

/* Returns the name of a tier for people: "memory", or the tier itself. */
const char *plan_tier_to_string(const char *tier);

/* The hint for a dataset that is larger than its max= */
#define PLAN_HINT_MAX "raise max=, or stage less (subdir=, include=)"

/* Makes the plan. Returns 0 or an error with err set: -ENOSPC (no allowed tier has enough space),
 * -EPERM (the rule forbids the request), -EINVAL (the request does not fit such a source).
 * plan->why is filled in any case. */
int plan_make(struct plan *plan, const struct plan_input *in, struct error *err);

/* Return whether the source should be opened as an archive: the first one by the user's method=;
 * the second one also by the source's name and other options. */
bool plan_asks_to_open(const struct dataset *ds);
bool plan_wants_members(const struct dataset *ds, const struct facts *facts);

/* Adds a hint to an error about missing space in plan->tier. Returns r. */
int plan_hint_space(const struct plan *plan, const struct plan_input *in, int r, struct error *err);

/* Returns the entry for a tier, or NULL if there is none. */
struct plan_space *plan_get_space(struct plan_input *in, const char *tier);

/* Minimum size for a broadcast under Mode=auto. For less data, waiting until all nodes are ready
 * takes longer than the broadcast saves (docs/scaling.md). */
#define PLAN_BROADCAST_MIN_SIZE (64ULL << 20)
/* The received file is copied in steps of this size, and each step is freed at once. So one step at
 * most is in memory twice. */
#define PLAN_BROADCAST_STEP (16ULL << 20)
#define PLAN_BROADCAST_FILES 4

#define PLAN_BROADCAST_WHY_SIZE 256

/* Decides whether the job's first node reads the dataset once and sends it to the others with
 * sbcast. plan has method, tier and need already. Returns NULL if it is sent; meanwhile it needs
 * *extrap more bytes. Else returns the reason, in buf or constant; "" if the question does not
 * arise. */
const char *plan_broadcast_refuse(const struct plan *plan, const struct plan_input *in,
				  uint64_t *extrap, char buf[static PLAN_BROADCAST_WHY_SIZE]);
