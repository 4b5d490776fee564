/*
 * policy: the limits of the site and the job for one dataset, as the task message has them. Plain
 * data.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/policy/memory-limits.h"

struct policy {
	const char *rule;	/* name of the site's section, for sentences */
	const char *rule_match; /* its pattern: the resolved source must fit it too */
	const char *methods;	/* "*" or a list with commas */
	const char *tiers;	/* list with commas, in order of preference; "": all */
	uint64_t max_bytes;	/* of one dataset, 0: none; the lower of site's and user's */
	uint64_t max_files;
	struct memory_facts memory; /* when the task was sent; what is measured is not in it */
	bool ssd;		    /* there is a disk tier */
	bool fuse;		    /* mounts may be made */
	bool squashfuse;	    /* … and images are served by squashfuse_ll */
	bool keeper;		    /* … by the keeper; else by fusermount3 */
	uint64_t cache_size;	    /* of an image server */
	uint64_t cache_first;	    /* until it gets another size */
	uint32_t threads;	    /* already decided: at least 1 */
	bool threads_given;	    /* by user or site: don't grow */
	uint32_t max_readers;	    /* operations on the source at once, 0: as many as help */
	uint64_t max_rate;	    /* bytes a second read from it, 0: no limit */
	const char *token_dir;	    /* source-token.h; "": none */
	uint64_t token_wait_ms, jitter_ms;
	uint64_t stall_ms;	  /* 0: none */
	uint64_t keep_ms;	  /* on disk it stays so long for the user's next job, 0: not */
	uint64_t mem_keep_ms;	  /* … in memory, in: */
	const char *mem_keep_dir; /* a tmpfs of the site's; "": nothing is kept in memory */
	uint32_t n_nodes, node_index;
	uint32_t fan_min_nodes;	 /* from so many nodes on one reads for all; 0: never */
	bool fan_always;	 /* … small files too */
	const char *fan_program; /* sbcast */
};
