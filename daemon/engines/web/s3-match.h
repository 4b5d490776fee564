/*
 * s3-match: "*" in keys. It stands for any bytes of one component, as in file names: for no "/",
 * not for a "." at its beginning, and not for an empty component. So "a/" and a star does not match
 * the marker "a/" of a directory. All other bytes stand for themselves. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool s3_is_pattern(const char *key);

/* Returns the number of bytes at the beginning of the pattern with which each matching key
 * begins. */
size_t s3_pattern_prefix(const char *pattern);

bool s3_match(const char *pattern, const char *key);
