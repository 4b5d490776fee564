/*
 * unlz4: a stream of what lz4 frames hold, several one after the other as well, all checksums
 * verified. Blocks that don't refer to each other are unpacked by several threads. unlz4.c is the
 * one file that knows liblz4; unlz4-none.c stands in its place where the build has none.
 */
#pragma once

struct error;
struct stream;

/* -ENOTSUP without liblz4. Else as decompress_new(). */
int unlz4_new(struct stream **sp, struct stream *in, struct error *err);
