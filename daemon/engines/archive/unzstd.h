/*
 * unzstd: the decompressed content of zstd frames, which may follow each other. Checksums are
 * verified. Of the streams, only unzstd.c uses libzstd.
 *
 * A frame needs as much memory as its window, a piece of the content that later data refers to: 8
 * MiB at most by default, 128 MiB by zstd --ultra -22 or --long. Longer ones (--long=28 to 31) are
 * refused. zstd refuses them, too, unless it is called with --long or --memory.
 */
#pragma once

struct error;
struct stream;

/* See decompress_new(). */
int unzstd_new(struct stream **sp, struct stream *in, struct error *err);
