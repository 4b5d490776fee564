/*
 * error: the sentence that a person will read. The function that knows most sets it.
 *
 * Functions take `struct error *err` as their last parameter (NULL is fine) and
 * return what error_set() returns: a negative errno. On the way up context is put
 * in front: "dataset imagenet: write train/0.tar: No space left on device".
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#define ERROR_MAX_SIZE 1024

/* Exit statuses of stagectl (stagectl(1)); also in the field `code` of messages. */
enum stage_exit {
	STAGE_EXIT_OK = 0,
	STAGE_EXIT_FAILED = 1,
	STAGE_EXIT_USAGE = 2,
	STAGE_EXIT_NOT_READY = 3,
	STAGE_EXIT_NO_ITEM = 4,
	STAGE_EXIT_NO_STAGING = 5,
	STAGE_EXIT_REFUSED = 6,
	STAGE_EXIT_NO_SPACE = 7,
	STAGE_EXIT_TIMEOUT = 124,
	STAGE_EXIT_INTERRUPTED = 130,
};

struct error {
	int code;		   /* negative errno; 0: no error is set */
	enum stage_exit exit_code; /* exit status of stagectl; 0: derived from code */
	bool has_hint;		   /* the text ends with a hint */
	char text[ERROR_MAX_SIZE]; /* one line, no newline; control bytes are escaped */
};

#define ERROR_INIT                                                                                 \
	{                                                                                          \
		0                                                                                  \
	}

/* Sets the text and returns -errnum (errnum > 0). Long texts are cut with "...". */
int error_set(struct error *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int error_setv(struct error *err, int errnum, const char *fmt, va_list ap);

/* Does the same, and appends ": strerror(errnum)". */
int error_errno(struct error *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Does the same as error_set(), and sets the exit status. */
int error_exit(struct error *err, enum stage_exit exit_code, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Inserts "context: " before the text. */
void error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends "; hint" to the text, unless it has a hint already: the function that is nearest to the
 * cause knows best. A long text is cut to make space. Returns r, so calls can be nested:
 * error_set_hint(err, error_set(...), ...). */
int error_set_hint(struct error *err, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns the exit status for err: exit_code if it is set, else 7 for ENOSPC, EDQUOT and ENOMEM, 6
 * for EPERM, 124 for ETIMEDOUT, and 1 for others. */
enum stage_exit error_to_exit(const struct error *err);
