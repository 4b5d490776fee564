/*
 * http-exchange: sends one request to one address by libcurl, and receives the answer. Each
 * address of a host is checked against the rules when a connection to it is made. http-get.c
 * follows redirects and repeats requests.
 *
 * Connections are kept open for the next request.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct error;
struct http_answer;
struct http_config;
struct http_exchange;

/* config stays the caller's and must outlive the exchange. */
int http_exchange_new(struct http_exchange **xp, const struct http_config *config,
		      struct error *err);
void http_exchange_free(struct http_exchange *x);
DEFINE_FREEP(struct http_exchange, http_exchange_free)

/* Requests the part that the answer still lacks. Returns 0 (this answer ended normally or all is
 * complete), HTTP_ANSWER_REDIRECT, or an error with err set; then *againp is true if another try
 * may help. */
int http_exchange_run(struct http_exchange *x, struct http_answer *a, const char *url, bool *againp,
		      struct error *err);
