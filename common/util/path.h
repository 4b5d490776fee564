/*
 * path: paths as text. Nothing here touches a file system.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes the lexically normal form of an absolute path to buf: no "//", "." or trailing "/", and
 * ".." resolved as text. Returns -EINVAL if the path is not absolute or leads above "/";
 * -ENAMETOOLONG. */
int path_normalize(const char *path, char *buf, size_t size);

/* Returns whether path equals dir or is beneath it, by whole components. Both are absolute and
 * normal. */
bool path_is_beneath(const char *path, const char *dir);

/* Joins "a" and dir "/b" to "/b/a"; absolute paths are unchanged. The caller frees; NULL: no
 * memory. */
char *path_join(const char *dir, const char *path);

/* Returns whether a symbolic link with this text leads out of its tree. dir: the link's directory
 * ("" or "a/b", normal, relative to the top of the tree). Only the text counts: an absolute path
 * always leads out. */
bool path_leads_out(const char *dir, const char *link);

/* Returns the part after the last "/" ("b" for "/a/b"), a pointer into path. */
const char *path_base(const char *path);

/* Returns whether the text contains a pattern character: * ? [ or { … }. */
bool path_is_pattern(const char *path);

/* Returns the number of bytes of a pattern that name the directory above all possible matches:
 * "/a/b" for "/a/b/?.tar" and "/a/b/{c,d}/e". 0: "/". For a text that is not a pattern, all
 * bytes. */
size_t path_get_top(const char *pattern);

/* Matches a path against a Match= rule, by components. "*" and "?" match within a component. "**"
 * matches any number of components, also none, so a rule for everything below a directory matches
 * the directory, too. Both texts are normal. */
bool path_match(const char *pattern, const char *path);
