/*
 * decode-error: converts libarchive's error about an archive to our error.
 */
#pragma once

struct error;

/* Sets err by libarchive's error number e and its text, or NULL. Returns -errno. -ENODATA: the
 * input ends too early. */
int decode_error_set(int e, const char *text, struct error *err);
