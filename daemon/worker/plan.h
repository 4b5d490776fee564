/*
 * plan: decides what is done, from what is known: facts about the source, the user's options, the
 * site's rules, and the free space. A pure function: no file, no clock, no message.
 *
 * A fallback never changes the shape: a directory that was promised is not replaced by a file.
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
#define PLAN_TIER_SOURCE "source" /* nothing is moved: mounted in place, or a link */

#define PLAN_MAX_TIERS 8
#define PLAN_WHY_SIZE 2048

/* What is free for a dataset in one tier. */
struct plan_space {
	const char *tier; /* a name, or the absolute path the user gave as DEST */
	bool present;	  /* there is such a tier here */
	bool known;	  /* free_bytes and free_files were measured */
	uint64_t free_bytes;
	uint64_t free_files;
	char limit[128]; /* which limit: "the node has 62.0 GiB of memory to spare" */
	bool of_node;	 /* it does: a job with more memory would have no more there */
};

/* What the code can do, by the table of stagers. */
struct plan_ability {
	bool can_copy, can_extract, can_mount, can_link;
	bool has_images;    /* built with squashfs images and mounts */
	bool can_broadcast; /* the first node passes on what it reads */
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
	enum dataset_method method;  /* never auto */
	char tier[DATASET_MAX_ITEM]; /* PLAN_TIER_*, or the absolute DEST */
	enum source_kind kind;	     /* shape of what appears: SOURCE_FILE or SOURCE_DIR */
	bool copy_first;	     /* mount: the image goes to the tier, is mounted from there */
	bool broadcast;		     /* read once for all nodes of the job (broadcast.h) */
	uint64_t need_bytes, need_files; /* to be reserved in the tier; 0: nothing */
	char line[256];			 /* "extract to memory, about 148 GiB" */
	char hint[384];		 /* how else the source could be understood; "": in no way */
	char why[PLAN_WHY_SIZE]; /* a line a reason */
};

/*
 * 0, or the sentence and: -ENOSPC (fits nowhere that may be used), -EPERM (the rule forbids what
 * was asked), -EINVAL (what was asked can't be done with such a source).
 * plan->why is filled in any case.
 */
int plan_make(struct plan *plan, const struct plan_input *in, struct error *err);

/* Does the user, the source's name or an option say that it is an archive to be opened? */
bool plan_asks_to_open(const struct dataset *ds);
bool plan_wants_members(const struct dataset *ds, const struct facts *facts);

/* Adds to a failure for want of room in plan->tier what could help. Returns r. */
int plan_hint_space(const struct plan *plan, const struct plan_input *in, int r, struct error *err);

/* The entry for a tier; NULL if there is none. */
struct plan_space *plan_get_space(struct plan_input *in, const char *tier);

/* From here on under Mode=auto: for less, nodes that wait for each other before the first byte lose
 * more than they spare (docs/scaling.md). */
#define PLAN_BROADCAST_MIN_SIZE (64ULL << 20)
/* What is copied out of the file that came is freed there at once: so much is twice there. */
#define PLAN_BROADCAST_STEP (16ULL << 20)
#define PLAN_BROADCAST_FILES 4

#define PLAN_BROADCAST_WHY_SIZE 256

/* Is a dataset read once, by the job's first node, and passed on to the others by sbcast? plan says
 * method, tier and need already. NULL: it is passed on, and takes *extrap bytes more
 * while it is. Else why not, in buf or constant; "" where nobody would ask. */
const char *plan_broadcast_refuse(const struct plan *plan, const struct plan_input *in,
				  uint64_t *extrap, char buf[static PLAN_BROADCAST_WHY_SIZE]);
