/*
 * hint: completes the message of a failure before the user reads it: it adds the source and what to
 * do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/dataset/facts.h"

#define HINT_PART_NAME 128 /* twice in a hint, with a pattern */
#define HINT_PART_SIZE 320

struct ctx;
struct error;
struct source;

/* What is wrong with the archive itself is fixed by making it again. -ESTALE where it has changed
 * since it was opened: what looks damaged while somebody writes to it is not. */
int hint_archive(const struct source *src, enum facts_format format, int r, struct error *err);

/* In buf: what helps with a file that is named like a part of a split archive. Is it? A name that
 * is long, or means something to a shell, is replaced by NAME. */
bool hint_part(const char *path, char *buf, size_t size);

/* Puts the source in front where the text does not name it, and a hint by the code behind where
 * nobody had one. src: NULL if it was never opened. */
void hint_error(const struct ctx *ctx, const struct source *src, struct error *err);
