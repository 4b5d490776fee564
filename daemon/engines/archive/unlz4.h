/*
 * unlz4: a stream of what lz4 frames hold, several one after the other as well, all checksums
 * verified. Blocks that don't refer to each other are unpacked by several threads. Only
 * unlz4.c knows liblz4.
 */
#pragma once

struct error;
struct stream;

/* As decompress_new(). */
int unlz4_new(struct stream **sp, struct stream *in, struct error *err);
