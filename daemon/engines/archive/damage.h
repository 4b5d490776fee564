/*
 * damage: the sentence for an archive that ends too early or has wrong bytes.
 */
#pragma once

#include <stdint.h>

#define DAMAGE_HINT "make or copy it again"

/* Part of the text of each error in a zip's central directory. unzip reads some of these zips. */
#define DAMAGE_ZIP_LIST "list of its files"

/* The same for a member of another size. unzip reads it if its checksum is right. */
#define DAMAGE_ZIP_SIZE "than the zip says"

struct error;

/* Writes a message to err: "/p/x.tar is cut off after 684 KiB (truncated tar archive)" for r
 * -ENODATA, "… is damaged (…)" for r -EBADMSG, with the present text in brackets. Other errors do
 * not change. Returns r, or -EILSEQ if it has written a message: no other one is written, and the
 * cause is the content and not the file system. size 0: not known. */
int damage_set_error(struct error *err, int r, const char *what, uint64_t size);

/* Adds ", last member NAME" to the text if r is -ENODATA or -EBADMSG: the damage is in the member
 * that was begun last, or directly after it. last NULL: no member was begun. Returns r. */
int damage_add_member(struct error *err, int r, const char *last);
