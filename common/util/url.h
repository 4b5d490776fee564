/*
 * url: the parts of http://, https:// and s3:// addresses, as text. Nothing is decoded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

enum url_scheme { URL_NONE, URL_HTTP, URL_HTTPS, URL_S3 };

struct url { /* points into the text */
	enum url_scheme scheme;
	const char *host; /* name, [IPv6 address] with its brackets, or bucket */
	size_t n_host;
	unsigned port;	  /* as written or by scheme; 0 for s3 */
	const char *path; /* from the first "/" on; for s3 behind it: the key */
	size_t n_path;	  /* up to a "?" or "#"; for s3 all of it */
};

/* By the part before "://"; URL_NONE if the scheme is not known. */
enum url_scheme url_scheme_of(const char *text);

static inline bool url_is_s3(const char *text)
{
	return url_scheme_of(text) == URL_S3;
}

/* Refuses an address with user:password@, without a host or a path, or with a port that is not a
 * number. -EINVAL with the message and the hint. */
int url_parse(struct url *url, const char *text, struct error *err);

/* The first byte of the path of an address, where a colon is no longer the host's; NULL: none. */
const char *url_find_path(const char *text);

/* Has the text a component ".." between "/", "{", "}" and ","? In URLs "%2e" counts as ".". */
bool url_climbs(const char *text, size_t n, bool percent);

/*
 * Does an address fit a rule's pattern: the same scheme, host (without case) and port, and a path
 * that path_match() takes? Of s3 the key has to begin byte by byte as the pattern does before its
 * first wildcard. False for what could be read in two ways: "..", also written with "%".
 */
bool url_match(const char *pattern, const char *address);
