/*
 * output: what stagectl says to people: sentences on stderr, texts on stdout.
 *
 * Everything that came from outside (names, paths, reasons) goes through here on its way to a
 * terminal, so that control bytes in it can't act on the terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct error;

/* Returns the name of this node in a step of several nodes, whose lines are mixed; else "". */
const char *output_get_step_node(void);

/* Writes "stagectl: <text>" to stderr, escaped; "stagectl: n2: <text>" in a step of several
 * nodes. */
void output_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes "stage-data: <text>" to the user of a held script or task, who has not run stagectl. */
void output_held(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints err, or "failed" if err is not set. Returns the exit status that belongs to err. */
int output_fail(const struct error *err);

/* Prints a mistake in the command line and names the help of verb. Returns STAGE_EXIT_USAGE. */
int output_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints text without adding a newline. Escapes it if f is a terminal; otherwise writes it byte for
 * byte, so that scripts get the exact path. */
void output_text(FILE *f, const char *text);

/* Prints text and a newline. Always escapes text, including its newlines, so it is exactly one
 * line. */
void output_line(FILE *f, const char *text);

/* Prints each line of text after indent. Always escapes them. */
void output_lines(FILE *f, const char *indent, const char *text);

/* Returns 0 as long as all output reaches stdout. If some was lost, because its reader has ended or
 * the disk is full, sets err, resets the error of stdout, and returns -EIO. A command that prints
 * for a long time must then end, because the parent may have set SIGPIPE to be ignored. */
int output_check(struct error *err);

/* Sorts the names and prints them as "n1, n2, n10 and 5 more". n: at least 1. */
void output_names(FILE *f, const char **names, size_t n);

/* Returns whether stdout is a terminal that shows colours. False if NO_COLOR is set or
 * TERM=dumb. */
bool output_has_colour(void);

/* Returns whether the cursor may be moved: as output_has_colour(), but ignores NO_COLOR. */
bool output_has_cursor(void);

/* Returns the number of lines of the terminal on stdout; 24 if that is unknown. */
size_t output_get_height(void);

/* Parameters of the escape sequence SGR. */
#define OUTPUT_RED "31"
#define OUTPUT_GREEN "32"

/* Writes "2.1 GB/s", in powers of 1000, which is usual for networks and file systems. Returns
 * buf. */
#define OUTPUT_RATE_TEXT 32
char *rate_to_string(uint64_t bytes_per_second, char buf[static OUTPUT_RATE_TEXT]);
