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

#define DATASET_MAX_VALUE (32 * 1024) /* bytes of a whole value; more is refused */
#define DATASET_MAX_ITEM 4096
#define DATASET_MAX_ITEMS 64	/* hard limit; the site's MaxItems is lower */
#define DATASET_NAME_SIZE 33	/* 32 bytes and the NUL */
#define DATASET_PROFILE_SIZE 65 /* 64 bytes and the NUL */
#define DATASET_MAX_GLOBS 16	/* include= and exclude= each */

enum dataset_scheme {
	DATASET_SCHEME_FILE, /* an absolute path after expansion */
	DATASET_SCHEME_HTTP, /* http or https */
	DATASET_SCHEME_S3,
	DATASET_SCHEME_CATALOG, /* @name[/sub] */
	DATASET_SCHEME_LIST,	/* @@file */
};

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
	char name[DATASET_NAME_SIZE]; /* unique in its list without regard to case */
	bool name_given;	      /* by the user, else made from the source */
	enum dataset_scheme scheme;
	char *source;  /* decoded, as written or expanded by dataset_list_expand();
			* without the "@" of a catalog, the "@@" of a list */
	bool is_set;   /* a pattern, braces or a list: many files */
	bool literal;  /* * ? [ ] { } in the source stand for themselves; written %5B ... */
	bool expanded; /* and so does $, written %24 */
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
	uint64_t keep_ms;		    /* 0: no */
	uint64_t max_size;		    /* 0: the site's */
	uint64_t timeout_ms;		    /* 0: none */
	uint64_t stall_ms;		    /* 0: the site's */
	uint32_t threads;		    /* 0: the site's */
	char profile[DATASET_PROFILE_SIZE]; /* whose keys in ~/.aws; "": not named */
	bool env_keys; /* keys=env: those of the environment before those of ~/.aws */
};

/* It may be staged with keys of the user's environment. */
static inline bool dataset_takes_keys(const struct dataset *d)
{
	return d->scheme == DATASET_SCHEME_S3 && !*d->profile;
}

struct dataset_list {
	struct dataset *items;
	size_t n_items;
};

void dataset_list_deinit(struct dataset_list *list);

/*
 * Reads a value. err names the item and the hint. On failure *list is untouched.
 * "none" gives an empty list. Names are made and made unique.
 */
int dataset_list_from_string(struct dataset_list *list, const char *value, struct error *err);

/* Writes the canonical form, which reads back to the same list; a name that the reader would
 * not make by itself (a number added) is written out. Caller frees. */
int dataset_to_string(const struct dataset *d, char **textp);
int dataset_list_to_string(const struct dataset_list *list, char **textp);

/*
 * Expands $VAR, ${VAR} and ~ in the sources of file and list items and in every DEST and subdir,
 * makes those sources absolute (against cwd) and normal. The result is never split or expanded
 * again. An s3:// item without profile= gets keys=env where the environment has keys, else the
 * profile of AWS_PROFILE. get_env: as getenv(3), with arg. home: NULL if not known. A variable that
 * is not set is refused by name. Names are derived again. On failure the list is half expanded:
 * throw it away.
 */
int dataset_list_expand(struct dataset_list *list, const char *cwd, const char *home,
			const char *(*get_env)(void *arg, const char *name), void *arg,
			struct error *err);

/*
 * Joins the values of repeated options: script lines add up; a command line value replaces
 * them, or adds to them when it begins with "+" (which is cut). NULL: not given. Caller frees
 * *valuep, which is NULL when nothing was given. "none" among others is refused by
 * dataset_list_from_string().
 */
int dataset_merge(char **valuep, const char *const *script, size_t n_script,
		  const char *const *command_line, size_t n_command_line, struct error *err);

/*
 * Are these, three or more, alike but for numbers in a row? The shell has expanded braces then; the
 * pattern it made them from goes to buf.
 */
bool dataset_find_sequence(const char *const *values, size_t n_values, char *buf, size_t size);

/* A letter, then letters, digits and _, fewer than DATASET_NAME_SIZE in all? */
bool dataset_name_is_legal(const char *text, size_t n);

/* Name of the environment variable: STAGE_DATA_PATH_<NAME in capitals>. prefix as
 * "STAGE_DATA_PATH_"; buf has at least strlen(prefix) + DATASET_NAME_SIZE bytes. */
void dataset_env_name(const struct dataset *d, const char *prefix, char *buf, size_t size);

/* The source for people and logs: with its "@", a query string cut to "?...". Returns buf. */
char *dataset_show_source(const struct dataset *d, char *buf, size_t size);

/* Its source is the name of one file, and no pattern. */
void dataset_take_literally(struct dataset *d);

/*
 * For an item whose source does not exist: "; ..." with the source that was probably meant, or "".
 * value: as given. Returns buf.
 */
char *dataset_slip_hint(const char *value, size_t index, char *buf, size_t size);

/* The same for an item like "year=2020", which was given in cwd: the user may have meant a file of
 * that name, but the part before "=" is read as a NAME. And for "host:/path", which is read as a
 * file "host" and its DEST. */
char *dataset_name_hint(const struct dataset *d, const char *value, const char *cwd, char *buf,
			size_t size);

const char *dataset_method_to_string(enum dataset_method m);
int dataset_method_from_string(const char *s, enum dataset_method *mp);
const char *dataset_scheme_to_string(enum dataset_scheme s);
