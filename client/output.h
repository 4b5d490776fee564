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

/* The name of this node, where we are in a step of several nodes whose lines mix; else "". */
const char *output_get_step_node(void);

/* "stagectl: <text>" on stderr, escaped; "stagectl: n2: <text>" in a step of several nodes. */
void output_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "stage-data: <text>": to the user of a script or task that is held, who has not run stagectl. */
void output_held(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Says err and returns the exit status that belongs to it. Nothing set: "failed". */
int output_fail(const struct error *err);

/* A mistake on the command line: says it, points to the help of verb; STAGE_EXIT_USAGE. */
int output_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text without a newline of its own: escaped if f is a terminal, else byte for byte, so that
 * scripts get the path that is meant. */
void output_text(FILE *f, const char *text);

/* Escaped in any case, newlines too, and a newline behind it: one line, whoever wrote the text. */
void output_line(FILE *f, const char *text);

/* Escaped in any case, with each line of text (split at newlines) behind indent. */
void output_lines(FILE *f, const char *indent, const char *text);

/* Is stdout a terminal that shows colours? Not with NO_COLOR set, or TERM=dumb. */
bool output_has_colour(void);

/* The same without a look at NO_COLOR: may the cursor be moved? */
bool output_has_cursor(void);

/* Lines of the terminal on stdout; 24 where that is unknown. */
size_t output_get_height(void);

/* Parameters of SGR */
#define OUTPUT_RED "31"
#define OUTPUT_GREEN "32"

/* "2.1 GB/s", powers of 1000 as networks and file systems are sold. Returns buf. */
#define OUTPUT_RATE_TEXT 32
char *rate_to_string(uint64_t bytes_per_second, char buf[static OUTPUT_RATE_TEXT]);
