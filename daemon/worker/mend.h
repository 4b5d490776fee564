/*
 * mend: the last look at a failure before the user reads it: which source it was, and what to do.
 */
#pragma once

#include <stdint.h>

struct ctx;
struct error;
struct source;

/* "/p/x.tar is cut off after 684 KiB (truncated tar archive)" or "… is damaged (…)" of r
 * -ENODATA or -EBADMSG, where the text says how; others stay. Returns r, or -EIO for what has its
 * sentence, so that it gets no second one. size 0: not known. */
int mend_damage(struct error *err, int r, const char *what, uint64_t size);

/* Puts the source in front where the text does not name it, and a mend by the code behind where
 * nobody had one. src: NULL if it was never opened. */
void mend_error(const struct ctx *ctx, const struct source *src, struct error *err);
