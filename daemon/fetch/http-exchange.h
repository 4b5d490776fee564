/*
 * http-exchange: one request to one address, and its answer, by libcurl. Each address of a host is
 * checked against the rules when a connection to it is made. Redirects and further tries are the
 * caller's (http-get.c).
 *
 * It keeps its connections for the next request.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct error;
struct http_answer;
struct http_config;
struct http_exchange;

/* config: lent. */
int http_exchange_new(struct http_exchange **xp, const struct http_config *config,
		      struct error *err);
void http_exchange_free(struct http_exchange *x);
DEFINE_FREEP(struct http_exchange, http_exchange_free)

/* Asks url for what the answer lacks. 0: the answer has come to its end, or is complete;
 * HTTP_ANSWER_REDIRECT: it is a redirect; else the sentence. *againp: another try may help. */
int http_exchange_run(struct http_exchange *x, struct http_answer *a, const char *url, bool *againp,
		      struct error *err);
