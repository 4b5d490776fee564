/*
 * hint: completes the message of a failure before the user reads it: it adds the source and what to
 * do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/dataset/facts.h"

#define HINT_PART_NAME 128 /* a hint may contain the name twice, and a pattern */
#define HINT_PART_SIZE 320

struct ctx;
struct error;
struct source;

/* Completes an error about the content of an archive: if no method can stage the content, the hint
 * is to make the archive again. Returns -ESTALE if the source has changed since it was opened,
 * because an archive that is being written only looks damaged. */
int hint_archive(const struct source *src, enum facts_format format, int r, struct error *err);

/* If the file is named like a part of a split archive, writes a command that joins the parts to
 * buf, and returns true. A name that is long, or has characters that are special in a shell, is
 * replaced by NAME. */
bool hint_part(const char *path, char *buf, size_t size);

/* Adds the source to an error that does not name it, and a hint by its code if it has none. src:
 * NULL if it was never opened. */
void hint_error(const struct ctx *ctx, const struct source *src, struct error *err);
