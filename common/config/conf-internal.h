/*
 * conf-internal: what the files conf*.c share. Nobody else includes it.
 */
#pragma once

#include "common/config/conf.h"
#include "common/util/error.h"

#define CONF_MAX_FILE (1024 * 1024)
#define CONF_MAX_FILES 256 /* in conf.d */
#define CONF_MAX_LINE                                                                              \
	198		 /* inih has 200 bytes for a line, its end and a NUL, and cuts the rest    \
			  */
#define CONF_MAX_NAME 32 /* of a section */

/* Takes errors where they are found. */
struct conf_report {
	void (*fn)(void *arg, const char *file, unsigned line, const char *text, const char *hint);
	void *arg;
	const char *file;
	unsigned line; /* 0: the file as a whole */
	unsigned n_errors;
	int code; /* -errno of the first */
};

/* hint: what to do, "" if text says it. Returns -errnum. */
int conf_report(struct conf_report *r, int errnum, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* conf-keys.c: sections and keys. */
struct conf_section {
	const char *name;
	bool named;	     /* [source NAME]; the others stand in struct conf itself */
	size_t item_size;    /* of named ones: their struct, array and count in struct conf; the */
	size_t array, count; /* struct begins with char *name */
};

const struct conf_section *conf_find_section(const char *name, size_t n);
const char *conf_nearest_section(const char *name);
const struct conf_key *conf_find_key(const struct conf_section *section, const char *name);
const char *conf_nearest_key(const struct conf_section *section, const char *name);

/* A new named item, all default, at the end of its array. */
int conf_add_item(struct conf *conf, const struct conf_section *section, const char *name);
/* Does an item of that name (without case) exist? Its index to *indexp. */
bool conf_find_item(const struct conf *conf, const struct conf_section *section, const char *name,
		    size_t *indexp);
/* What the keys of a section are offsets into. */
void *conf_section_base(struct conf *conf, const struct conf_section *section, size_t index);

int conf_set_defaults(struct conf *conf);
/* Sets (or frees) the keys of one section beneath base. */
int conf_init_values(void *base, const struct conf_section *section);
void conf_free_values(void *base, const struct conf_section *section);
void conf_free_items(struct conf *conf);

/* conf-value.c: */

/* Parses value into the field of key in the struct at base. Reports mistakes in it. */
int conf_set_value(void *base, const struct conf_key *key, const char *value,
		   struct conf_report *r);

/* conf-parse.c: the places at which the named sections begin, in the last file that has them, and
 * the places of the keys of the other sections. */
struct conf_place {
	const struct conf_section *section;
	size_t index;
	const struct conf_key *key; /* NULL: the section is a named one */
	char *file;
	unsigned line;
	bool bad; /* a value was refused: what is missing then is no news */
};

struct conf_places {
	struct conf_place *items;
	size_t n_items;
};

void conf_places_deinit(struct conf_places *places);

/* Reads one file's bytes into conf. Errors go to r; -ENOMEM is returned. */
int conf_parse(struct conf *conf, const char *data, size_t size, struct conf_places *places,
	       struct conf_report *r);

/* conf-file.c: opens files that only root (or the caller) can have written. */

/* Opens an absolute normal path. -ENOENT without a report if it isn't there, else -errno and a
 * report. */
int conf_open(const char *path, bool directory, struct conf_report *r);
/* The same for a name in a directory opened by conf_open(). */
int conf_open_at(int dirfd, const char *name, const char *path, struct conf_report *r);
/* All of a regular file. */
int conf_read(int fd, const char *path, size_t max, char **datap, size_t *sizep,
	      struct conf_report *r);
/* Names *.conf in a directory in byte order; caller frees each and the array. */
int conf_list_dir(int fd, const char *path, char ***namesp, size_t *n_namesp,
		  struct conf_report *r);

/* conf-get.c: */

/* Reads the source of a [dataset]; d needs dataset_list_deinit() of its list. */
int conf_read_dataset_source(const char *source, struct dataset_list *list, struct error *err);

/* conf-check.c: checks single values, and values that depend on each other. */
int conf_check_match(char **valuep, struct conf_report *r);
int conf_check_methods(char **valuep, struct conf_report *r);
int conf_check_tier_path(char **valuep, struct conf_report *r);
int conf_check_log_file(char **valuep, struct conf_report *r);
int conf_check_program(char **valuep, struct conf_report *r);
int conf_check_textfile(char **valuep, struct conf_report *r);
int conf_check_namespace(char **valuep, struct conf_report *r);
int conf_check_export(char **valuep, struct conf_report *r);
int conf_check_endpoint(char **valuep, struct conf_report *r);
int conf_check_networks(char **valuep, struct conf_report *r);
int conf_check_proxy(char **valuep, struct conf_report *r);
int conf_check_ca_file(char **valuep, struct conf_report *r);
int conf_check_token_dir(char **valuep, struct conf_report *r);
int conf_check_sha256(char **valuep, struct conf_report *r);
int conf_check_dataset_source(char **valuep, struct conf_report *r);
void conf_check_whole(const struct conf *conf, const struct conf_places *places,
		      struct conf_report *r);
