/*
 * conf-internal: what the files conf*.c share. Nobody else includes it.
 */
#pragma once

#include "common/config/conf.h"
#include "common/util/error.h"

#define CONF_MAX_FILE (1024 * 1024)
#define CONF_MAX_FILES 256 /* in conf.d */
#define CONF_MAX_LINE                                                                              \
	198 /* inih's buffer of 200 bytes must hold a newline and a NUL, too; the rest is cut */
#define CONF_MAX_NAME 32 /* of a section */

/* The receiver of errors, and the place where they occur. */
struct conf_report {
	void (*fn)(void *arg, const char *file, unsigned line, const char *text, const char *hint);
	void *arg;
	const char *file;
	unsigned line; /* 0: the file as a whole */
	unsigned n_errors;
	int code; /* -errno of the first error */
};

/* Reports an error. hint: how to fix it, "" if text says it. Returns -errnum. */
int conf_report(struct conf_report *r, int errnum, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* conf-keys.c: sections and keys. */
struct conf_section {
	const char *name;
	bool named; /* [source NAME]; keys of other sections are fields of struct conf */
	/* Named sections only: the size of their struct, which begins with char *name, and the
	 * offsets of their array and count in struct conf. */
	size_t item_size;
	size_t array, count;
};

const struct conf_section *conf_find_section(const char *name, size_t n);
/* Writes "known are daemon, ..., source NAME and dataset NAME". */
void conf_list_sections(char *buf, size_t size);
const char *conf_nearest_section(const char *name);
const struct conf_key *conf_find_key(const struct conf_section *section, const char *name);
const char *conf_nearest_key(const struct conf_section *section, const char *name);

/* Appends a named item with default values to its array. */
int conf_add_item(struct conf *conf, const struct conf_section *section, const char *name);
/* Finds an item by name, ignoring case. Its index goes to *indexp. */
bool conf_find_item(const struct conf *conf, const struct conf_section *section, const char *name,
		    size_t *indexp);
/* Returns the struct that has the fields of the section's keys. */
void *conf_section_base(struct conf *conf, const struct conf_section *section, size_t index);

int conf_set_defaults(struct conf *conf);
/* Set the section's keys in the struct at base to their defaults, or free them. */
int conf_init_values(void *base, const struct conf_section *section);
void conf_free_values(void *base, const struct conf_section *section);
void conf_free_items(struct conf *conf);

/* conf-value.c: */

/* Parses value into the field of key in the struct at base. Reports mistakes in it. */
int conf_set_value(void *base, const struct conf_key *key, const char *value,
		   struct conf_report *r);

/* conf-parse.c: the places of named sections and of the keys of other sections. If several files
 * have them, the last one counts. */
struct conf_place {
	const struct conf_section *section;
	size_t index;
	const struct conf_key *key; /* NULL for a named section */
	char *file;
	unsigned line;
	bool bad; /* a value was refused; do not report that its key is missing */
};

struct conf_places {
	struct conf_place *items;
	size_t n_items;
};

void conf_places_deinit(struct conf_places *places);

/* Parses the bytes of one file into conf. Reports errors to r; returns 0 or -ENOMEM. */
int conf_parse(struct conf *conf, const char *data, size_t size, struct conf_places *places,
	       struct conf_report *r);

/* conf-file.c: opens files that only root (or the caller) can have written. */

/* Opens an absolute, normal path. Returns -ENOENT without a report if it does not exist; -errno
 * after a report for other errors. */
int conf_open(const char *path, bool directory, struct conf_report *r);
/* Does the same for a name in a directory that was opened by conf_open(). */
int conf_open_at(int dirfd, const char *name, const char *path, struct conf_report *r);
/* Reads a whole regular file. */
int conf_read(int fd, const char *path, size_t max, char **datap, size_t *sizep,
	      struct conf_report *r);
/* Gets the names *.conf in a directory, in byte order. The caller frees each and the array. */
int conf_list_dir(int fd, const char *path, char ***namesp, size_t *n_namesp,
		  struct conf_report *r);

/* conf-get.c: */

/* Reads the source of a [dataset] into list, which then needs dataset_list_deinit(). */
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
