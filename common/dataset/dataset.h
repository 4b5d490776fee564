/*
 * dataset: what the user asks for: the syntax of --stage-data.
 *
 *   value  = item *( "," item )
 *   item   = [ NAME "=" ] SOURCE [ ":" [ DEST ] [ ":" opt *( "+" opt ) ] ]
 *
 * Order of reading: merge, split on commas outside {}, split into fields, decode, expand $VAR.
 * stage-data(7) has the rules for people; the cases in tests/unit/common/dataset/test-dataset.c
 * define the exact behaviour.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct error;

#define DATASET_MAX_VALUE (32 * 1024) /* of a whole value, in bytes; longer values are refused */
#define DATASET_MAX_ITEM 4096
#define DATASET_MAX_ITEMS 64	/* hard limit; the site's MaxItems is lower */
#define DATASET_NAME_SIZE 33	/* 32 bytes and the NUL */
#define DATASET_PROFILE_SIZE 65 /* 64 bytes and the NUL */
#define DATASET_MAX_GLOBS 16	/* for include= and exclude= separately */

enum dataset_scheme {
	DATASET_SCHEME_FILE, /* an absolute path after expansion */
	DATASET_SCHEME_HTTP, /* http or https */
	DATASET_SCHEME_S3,
	DATASET_SCHEME_CATALOG, /* @name[/sub] */
	DATASET_SCHEME_LIST,	/* @@file */
};

/* Returns whether such a source is an address, which stage-fetch reads. */
static inline bool dataset_scheme_is_web(enum dataset_scheme scheme)
{
	return scheme == DATASET_SCHEME_HTTP || scheme == DATASET_SCHEME_S3;
}

enum dataset_method {
	DATASET_METHOD_AUTO,
	DATASET_METHOD_COPY,
	DATASET_METHOD_EXTRACT,
	DATASET_METHOD_MOUNT,
	DATASET_METHOD_LINK,
};

enum dataset_onfail {
	DATASET_ONFAIL_FAIL,
	DATASET_ONFAIL_SOURCE,
	DATASET_ONFAIL_IGNORE,
};

enum dataset_verify {
	DATASET_VERIFY_SIZE,
	DATASET_VERIFY_NONE,
	DATASET_VERIFY_SHA256,
};

enum dataset_shard {
	DATASET_SHARD_ALL,
	DATASET_SHARD_NODE,
	DATASET_SHARD_NODE_EVEN,
};

struct dataset {
	char name[DATASET_NAME_SIZE]; /* unique in its list, ignoring case */
	bool name_given;	      /* given by the user; otherwise made from the source */
	enum dataset_scheme scheme;
	char *source;  /* decoded, as written or expanded by dataset_list_expand(); without the "@"
		        * of a catalogue name or the "@@" of a list */
	bool is_set;   /* a pattern, braces or a list: many files */
	bool literal;  /* * ? [ ] { } in the source are ordinary characters; written as %5B ... */
	bool expanded; /* so is $; written as %24 */
	char *dest;    /* "auto", "shm", "ssd", "scratch", "source" or an absolute path */

	enum dataset_method method;
	enum dataset_onfail onfail;
	enum dataset_verify verify;
	char sha256[65]; /* lower case hex, or "" */
	enum dataset_shard shard;
	bool nested;
	bool hydrate; /* hydrate=copy */
	bool follow;  /* links=follow */
	uint32_t strip;
	char *subdir; /* NULL: none; relative, no ".." */
	char *include[DATASET_MAX_GLOBS];
	size_t n_include;
	char *exclude[DATASET_MAX_GLOBS];
	size_t n_exclude;
	uint64_t keep_ms;		    /* 0: do not keep */
	uint64_t max_size;		    /* 0: use the site's value */
	uint64_t timeout_ms;		    /* 0: none */
	uint64_t stall_ms;		    /* 0: use the site's value */
	uint32_t threads;		    /* 0: use the site's value */
	char profile[DATASET_PROFILE_SIZE]; /* section of ~/.aws that has the keys; "": not given */
	bool env_keys; /* keys=env: keys in the environment take precedence over ~/.aws */
};

/* Returns whether staging may use keys of the user's environment. */
static inline bool dataset_takes_keys(const struct dataset *d)
{
	return d->scheme == DATASET_SCHEME_S3 && !*d->profile;
}

struct dataset_list {
	struct dataset *items;
	size_t n_items;
};

void dataset_list_deinit(struct dataset_list *list);

/* Parses a value; "none" gives an empty list. Gives each dataset a unique name. On failure, *list
 * is unchanged, and err names the item and has a hint. */
int dataset_list_from_string(struct dataset_list *list, const char *value, struct error *err);

/* Write the canonical form, which parses to the same list. A name is written if the parser would
 * not make the same one from the source. The caller frees *textp. */
int dataset_to_string(const struct dataset *d, char **textp);
int dataset_list_to_string(const struct dataset_list *list, char **textp);

/*
 * Expands $VAR, ${VAR} and ~ in the sources of file and list items and in every DEST and subdir.
 * Makes those sources absolute, relative to cwd, and normal. The result is never split or expanded
 * again. An s3:// item without profile= gets keys=env if the environment has keys, else the profile
 * in AWS_PROFILE. get_env works like getenv(3), with arg. home: NULL if not known. The error names
 * a variable that is not set. Names are made again. After a failure, the list is partially expanded
 * and must not be used.
 */
int dataset_list_expand(struct dataset_list *list, const char *cwd, const char *home,
			const char *(*get_env)(void *arg, const char *name), void *arg,
			struct error *err);

/*
 * Joins the values of repeated options. Values of script lines are added. A value on the command
 * line replaces them, or is added if it begins with "+", which is removed. *valuep is NULL if there
 * are no values; the caller frees it. "none" together with other items is refused later, by
 * dataset_list_from_string().
 */
int dataset_merge(char **valuep, const char *const *script, size_t n_script,
		  const char *const *command_line, size_t n_command_line, struct error *err);

/* Returns whether there are at least three values that differ only by consecutive numbers, because
 * the shell has expanded braces. The original pattern goes to buf. */
bool dataset_find_sequence(const char *const *values, size_t n_values, char *buf, size_t size);

/* Returns whether text is a letter, followed by letters, digits and _, shorter than
 * DATASET_NAME_SIZE. */
bool dataset_name_is_legal(const char *text, size_t n);

/* Writes the name of the environment variable, STAGE_DATA_PATH_<NAME in capitals> if prefix is
 * "STAGE_DATA_PATH_". buf has at least strlen(prefix) + DATASET_NAME_SIZE bytes. */
void dataset_env_name(const struct dataset *d, const char *prefix, char *buf, size_t size);

/* Writes the source for people and logs: with its "@", and with "?..." for a query string. Returns
 * buf. */
char *dataset_show_source(const struct dataset *d, char *buf, size_t size);

/* Makes the source a single file's name instead of a pattern. */
void dataset_take_literally(struct dataset *d);

/* For an item whose source does not exist: writes "; ..." with the source that the user probably
 * meant, or "". value: the user's value. Returns buf. */
char *dataset_slip_hint(const char *value, size_t index, char *buf, size_t size);

/* Does the same for two other mistakes. In "year=2020", given in cwd, the part before "=" is read
 * as a NAME, but the user may have meant a file of that name. "host:/path" is read as a file "host"
 * with a DEST. */
char *dataset_name_hint(const struct dataset *d, const char *value, const char *cwd, char *buf,
			size_t size);

const char *dataset_method_to_string(enum dataset_method m);
int dataset_method_from_string(const char *s, enum dataset_method *mp);
const char *dataset_scheme_to_string(enum dataset_scheme s);
