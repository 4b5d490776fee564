/*
 * gunzip: the decompressed content of a gzip stream, which may have several members. Checksum and
 * length of each member are verified.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct stream;

/* in is consumed on success. The new stream returns -ENODATA: cut off; -EBADMSG: damaged. Zeros
 * after the last member (padding) are skipped; other data is an error. */
int gunzip_new(struct stream **sp, struct stream *in, struct error *err);

/* Returns the number of bytes to which the first size bytes of a gzip file decompress. Stops at
 * damage, or after about max bytes. *usedp: compressed bytes that were used for this. */
uint64_t gunzip_count(const void *data, size_t size, uint64_t max, uint64_t *usedp);
