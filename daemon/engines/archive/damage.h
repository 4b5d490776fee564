/*
 * damage: the sentence for an archive that ends too early or has wrong bytes.
 */
#pragma once

#include <stdint.h>

#define DAMAGE_HINT "make or copy it again"

struct error;

/* "/p/x.tar is cut off after 684 KiB (truncated tar archive)" or "… is damaged (…)" of r
 * -ENODATA or -EBADMSG, where the text says how; others stay. Returns r, or -EIO for what has its
 * sentence, so that it gets no second one. size 0: not known. */
int damage_set_error(struct error *err, int r, const char *what, uint64_t size);

/* Returns r. The text gets ", last member NAME" if r is -ENODATA or -EBADMSG: the damage is in the
 * member that was begun last, or right after it. NULL: none was begun. */
int damage_add_member(struct error *err, int r, const char *last);
