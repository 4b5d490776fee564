/*
 * web: where a dataset from the web may come from: the rules of the site as stagingd sends them,
 * asked again at each redirect and at each connection.
 *
 * The text has lines of a word, a tab and what it says:
 *
 *   allow      PATTERN [ TAB NETWORKS ]   a rule that admits this user; "*": every public server
 *   proxy      http://HOST:PORT           all requests go through it
 *   cafile     PATH                       certificates that are trusted instead of the system's
 *   networks   NETWORKS                   that the S3 server may be in
 *   endpoint   URL                        of S3
 *   region     NAME                       of S3
 *   anonymous  yes                        S3 without keys
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/util/cleanup.h"

struct error;

#define WEB_MAX_TEXT (24 * 1024)

struct web_rule {
	char *pattern;
	char *networks; /* networks that its hosts may be in, in addition to public ones; "":
			 * none */
};

struct web {
	struct web_rule *rules;
	size_t n_rules;
	const char *proxy, *cafile, *endpoint, *region; /* "": none */
	struct web_rule s3;				/* rule of the endpoint, for its networks */
	bool anonymous;

	char *text; /* the text that the strings above point into */
};

int web_new_from_text(struct web **webp, const char *text, struct error *err);
void web_free(struct web *web);
DEFINE_FREEP(struct web, web_free)

/* Finds the rule that allows an http:// or https:// address. -EPERM with a message: there is
 * none. */
int web_check_url(const struct web *web, const char *url, const struct web_rule **rulep,
		  struct error *err);

/* Returns true if a host of this rule may have this address. */
bool web_rule_allows(const struct web_rule *rule, const struct sockaddr *sa);
/* The same for an address as text. Returns false if it is not an address. */
bool web_rule_allows_text(const struct web_rule *rule, const char *address);

/* Writes the address without its query to buf, for messages. Returns buf. */
char *web_show(const char *url, char *buf, size_t size);
