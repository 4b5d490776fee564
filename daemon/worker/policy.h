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
	const char *rule;	/* name of the rule's section, for messages */
	const char *rule_match; /* patterns of the rule; the resolved source must match one, too */
	const char *methods;	/* "*" or a list, separated by commas */
	const char *tiers;	/* list, separated by commas, in order of preference; "": all */
	uint64_t max_bytes;	/* limit for one dataset, the lower of the site's and the user's;
				 * 0: none */
	uint64_t max_files;
	struct memory_facts memory; /* as of the time when the task was sent; measured values are
				     * not set */
	bool ssd;		    /* this node has a disk tier */
	bool fuse;		    /* mounts are allowed */
	bool squashfuse;	    /* images are served by squashfuse_ll */
	bool keeper;		    /* mounts are made by the keeper; else by fusermount3 */
	uint64_t cache_size;	    /* cache size of an image server */
	uint64_t cache_first;	    /* cache size until stagingd sends another one */
	uint32_t threads;	    /* final number of threads, at least 1 */
	bool threads_given;	    /* the user or the site set it, so it must not be increased */
	uint32_t max_readers;	    /* operations on the source at the same time; 0: as many as
				     * help */
	uint64_t max_rate;	    /* limit for reads from the source in bytes per second; 0:
				     * none */
	const char *token_dir;	    /* directory of the tokens (source-token.h); "": none */
	uint64_t token_wait_ms, jitter_ms;
	uint64_t stall_ms;	  /* 0: no limit */
	uint64_t keep_ms;	  /* time that data on disk stays for the user's next job; 0: it
				   * does not stay */
	uint64_t mem_keep_ms;	  /* the same for data in memory, in mem_keep_dir */
	const char *mem_keep_dir; /* directory in a tmpfs of the site; "": nothing is kept in
				   * memory */
	uint32_t n_nodes, node_index;
	uint32_t fan_min_nodes;	 /* number of nodes from which on one node reads for all; 0:
				  * never */
	bool fan_always;	 /* also send small files to the other nodes */
	const char *fan_program; /* path or name of sbcast */
};
