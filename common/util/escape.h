/*
 * escape: makes text of any origin harmless for terminals and logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copies src to dst so that a terminal can't be harmed: control bytes and invalid UTF-8
 * become \xNN. Always terminated; returns the length written (cut if need be). */
size_t text_escape(char *dst, size_t dst_size, const void *src, size_t src_size);

/* Would text_escape() leave it as it is? *badp: offset of the first byte that it would not. */
bool text_is_clean(const void *src, size_t size, size_t *badp);
