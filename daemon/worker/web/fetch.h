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
	const char *web;     /* the rules, in the format of web.h */
	const char *profile; /* profile of the user's S3 keys; "": not named */
	int keys_fd;	     /* the keys from the user's environment can be read from it; -1:
			      * none; stays the caller's */
	uint64_t rate;	     /* limit in bytes per second; 0: none */
	uint32_t low_speed_s;
};

/* Starts stage-fetch from the directory of this program. Call it before the sandbox is entered and
 * before any thread starts. Returns 0 or an error with err set. */
int fetch_new(struct fetch **fp, const struct fetch_config *config, struct error *err);
/* Kills stage-fetch and frees f. */
void fetch_free(struct fetch *f);
DEFINE_FREEP(struct fetch, fetch_free)

struct fetch_get {
	const char *url;
	uint64_t from, to;
	bool whole_is_fine, any_end, is_pipe;
	bool is_list, is_pattern;	    /* is_list: request a listing; is_pattern: url has a
					     * pattern */
	const struct http_validator *known; /* NULL, or both fields empty: nothing is known */
	uint64_t known_total;		    /* HTTP_END: not known */
};

/* Requests that bytes are written to fd, which stays the caller's. *idp identifies the request in
 * events. */
int fetch_get(struct fetch *f, const struct fetch_get *get, int fd, uint32_t *idp,
	      struct error *err);

/* Ends all earlier requests; each still gets an event. */
void fetch_stop(struct fetch *f);

enum fetch_what { FETCH_CAME, FETCH_DONE, FETCH_FAILED };

struct fetch_event {
	enum fetch_what what;
	uint32_t id;
	uint64_t bytes;		 /* for FETCH_CAME */
	struct http_reply reply; /* for FETCH_DONE */
	struct error error;	 /* for FETCH_FAILED */
};

/* Waits for an event. Returns 1: *e is an event; 0: none within timeout_ms; -errno: stage-fetch has
 * ended, or ctx was cancelled. */
int fetch_wait(struct fetch *f, struct ctx *ctx, int timeout_ms, struct fetch_event *e,
	       struct error *err);

/* Makes one request and waits for its end. Returns 0 or an error with err set. */
int fetch_get_now(struct fetch *f, struct ctx *ctx, const struct fetch_get *get, int fd,
		  struct http_reply *reply, struct error *err);
