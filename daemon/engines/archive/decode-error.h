/*
 * decode-error: converts libarchive's error about an archive to our error.
 */
#pragma once

struct error;

/* e and text: its number and its text, or NULL. -ENODATA: the input ends too early. */
int decode_error_set(int e, const char *text, struct error *err);
