/*
 * What decode.c (archives) and decode-stream.c (what is compressed) share.
 */
#pragma once

struct archive;
struct error;

/* Converts libarchive's error to ours. If an error of the input was the cause, uses that one. */
int decode_take_error(struct archive *a, const struct error *in_error, struct error *err);

/* Sets the error after archive_read_new() has returned NULL: no memory, or no libarchive. */
int decode_error_new(struct error *err);
