/*
 * escape: makes text of any origin harmless for terminals and logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copies src to dst. Control bytes and invalid UTF-8 become \xNN, so that they cannot affect a
 * terminal. dst is always NUL-terminated. Returns the length written; a long text is cut. */
size_t text_escape(char *dst, size_t dst_size, const void *src, size_t src_size);

/* Returns whether text_escape() would change nothing. *badp: offset of the first byte that it would
 * change. */
bool text_is_clean(const void *src, size_t size, size_t *badp);
