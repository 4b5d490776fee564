/*
 * hash: SHA-256 of what is read, for verify=sha256. hash.c is the one file that knows nettle.
 */
#pragma once

#include <stddef.h>

#include "common/util/cleanup.h"

struct block;
struct error;
struct hash;

#define HASH_TEXT_SIZE 65

int hash_new(struct hash **hp);
void hash_free(struct hash *h);
DEFINE_FREEP(struct hash, hash_free)

void hash_add(struct hash *h, const void *data, size_t size);
/* Does the same in a thread of the hash, which holds b until it is done. Must not be used together
 * with hash_add(). */
void hash_add_block(struct hash *h, struct block *b);
/* Writes the hash of all added bytes to text, in lower-case hex, and starts again with no bytes. */
void hash_get(struct hash *h, char text[static HASH_TEXT_SIZE]);

/* Compares the hash with expected. Returns 0, or -EBADMSG with both sums in err. what: the file,
 * for the message. */
int hash_check(struct hash *h, const char *expected, const char *what, struct error *err);
