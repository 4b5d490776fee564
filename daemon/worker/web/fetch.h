/*
 * fetch: the worker's side of stage-fetch, the process that has the network. The worker requests
 * that certain bytes of an object are written to a descriptor. It has no network sockets, and reads
 * the data with the same restricted rights as every other source.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/web/fetch-protocol.h"
#include "daemon/engines/web/http-head.h"

struct ctx;
struct fetch;

struct fetch_config {
	const char *web;     /* the rules, as web.h has them */
	const char *profile; /* of the user's keys for S3, "": not named */
	int keys_fd;	     /* brings those of his environment, -1: none; stays the caller's */
	uint64_t rate;	     /* bytes a second, 0: no limit */
	uint32_t low_speed_s;
};

/* Starts stage-fetch, from beside this program. Before the sandbox and before any thread. */
int fetch_new(struct fetch **fp, const struct fetch_config *config, struct error *err);
/* Ends it, whatever it is at. */
void fetch_free(struct fetch *f);
DEFINE_FREEP(struct fetch, fetch_free)

struct fetch_get {
	const char *url;
	uint64_t from, to;
	bool whole_is_fine, any_end, is_pipe;
	bool is_list, is_pattern;	    /* op=list */
	const struct http_validator *known; /* NULL, or both empty: nothing */
	uint64_t known_total;		    /* HTTP_END: not known */
};

/* Asks for bytes into fd, which stays the caller's. *idp comes back in what is said of them. */
int fetch_get(struct fetch *f, const struct fetch_get *get, int fd, uint32_t *idp,
	      struct error *err);

/* Ends all earlier requests, each with an answer. */
void fetch_stop(struct fetch *f);

enum fetch_what { FETCH_CAME, FETCH_DONE, FETCH_FAILED };

struct fetch_event {
	enum fetch_what what;
	uint32_t id;
	uint64_t bytes;		 /* CAME */
	struct http_reply reply; /* DONE */
	struct error error;	 /* FAILED */
};

/* 1: an event; 0: none within timeout_ms; -errno: stage-fetch is gone, or ctx was cancelled. */
int fetch_wait(struct fetch *f, const struct ctx *ctx, int timeout_ms, struct fetch_event *e,
	       struct error *err);

/* One get into a file, to its end. */
int fetch_get_now(struct fetch *f, const struct ctx *ctx, const struct fetch_get *get, int fd,
		  struct http_reply *reply, struct error *err);
