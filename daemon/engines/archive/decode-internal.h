/*
 * What decode.c (archives) and decode-stream.c (what is compressed) share.
 */
#pragma once

struct archive;
struct error;

/* What libarchive says, as our error; what the stream below said, if that was the cause. */
int decode_take_error(struct archive *a, const struct error *in_error, struct error *err);
