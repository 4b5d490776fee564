/*
 * unlz4: the decompressed content of lz4 frames, which may follow each other. All checksums are
 * verified. Blocks that do not refer to each other are decompressed by several threads. Only
 * unlz4.c knows liblz4.
 */
#pragma once

struct error;
struct stream;

/* See decompress_new(). */
int unlz4_new(struct stream **sp, struct stream *in, struct error *err);
