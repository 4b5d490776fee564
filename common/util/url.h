/*
 * url: the parts of http://, https:// and s3:// addresses, as text. Nothing is decoded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

enum url_scheme { URL_NONE, URL_HTTP, URL_HTTPS, URL_S3 };

struct url { /* all pointers point into the text */
	enum url_scheme scheme;
	const char *host; /* a name, an [IPv6 address] with its brackets, or a bucket */
	size_t n_host;
	unsigned port;	  /* the port in the text, or the scheme's default; 0 for s3 */
	const char *path; /* from the first "/" on; for s3, the key after it */
	size_t n_path;	  /* up to a "?" or "#"; for s3, the whole key */
};

/* Determines the scheme from the part before "://"; URL_NONE if it is not known. */
enum url_scheme url_scheme_of(const char *text);

static inline bool url_is_s3(const char *text)
{
	return url_scheme_of(text) == URL_S3;
}

/* Parses an address. Refuses user:password@, a missing host or path, and a port that is not a
 * number. Returns 0, or -EINVAL with the message and a hint. */
int url_parse(struct url *url, const char *text, struct error *err);

/* Returns the first byte of an address's path, after which a colon does not belong to the host;
 * NULL: no path. */
const char *url_find_path(const char *text);

/* Returns whether text has a component ".." between "/", "{", "}" and ",". percent: "%2e" counts as
 * ".". */
bool url_climbs(const char *text, size_t n, bool percent);

/*
 * Returns whether an address matches a rule's pattern: the same scheme, host (ignoring case) and
 * port, and a path that path_match() accepts. The key of an s3 address must also begin with the
 * same bytes as the pattern up to its first wildcard. Returns false for ambiguous addresses with
 * "..", which may be written with "%".
 */
bool url_match(const char *pattern, const char *address);
