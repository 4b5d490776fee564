/*
 * gunzip: the decompressed content of a gzip stream, which may have several members. Checksum and
 * length of each member are verified.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct stream;

/* in is consumed on success. The stream's -ENODATA: cut off; -EBADMSG: damaged. Zeros behind the
 * last member (padding) are passed over, anything else is an error. */
int gunzip_new(struct stream **sp, struct stream *in, struct error *err);

/* How many bytes the first size bytes of a gzip file unpack to, as far as they do and at most about
 * max. *usedp: of how many bytes they are. */
uint64_t gunzip_count(const void *data, size_t size, uint64_t max, uint64_t *usedp);
