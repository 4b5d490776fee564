/*
 * path: paths as text. Nothing here touches a file system.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes the lexically normal form of an absolute path to buf: no "//", "." or trailing "/",
 * ".." resolved as text. -EINVAL if not absolute or climbing above "/", -ENAMETOOLONG. */
int path_normalize(const char *path, char *buf, size_t size);

/* Is path equal to dir or beneath it, by whole components? Both absolute and normal. */
bool path_is_beneath(const char *path, const char *dir);

/* "a", dir "/b" -> "/b/a"; absolute paths are kept. Caller frees; NULL: no memory. */
char *path_join(const char *dir, const char *path);

/* A symbolic link in dir ("" or "a/b", normal, below the top of a tree) has this text. Does it lead
 * out of the tree? By the text alone: an absolute path does, wherever it ends. */
bool path_leads_out(const char *dir, const char *link);

/* The part after the last "/" ("/a/b" -> "b"). Points into path. */
const char *path_base(const char *path);

/* Has the text a pattern byte: * ? [ or { … } ? */
bool path_is_pattern(const char *path);

/* The number of bytes of a pattern that name the directory above everything that it can match:
 * "/a/b" of "/a/b/?.tar" and "/a/b/{c,d}/e". 0: only "/". For a text that is not a pattern, all
 * bytes. */
size_t path_get_top(const char *pattern);

/* Match of Match= rules by components: "*" and "?" stay inside one, "**" spans any number, also
 * none, so that a rule for everything below a directory matches the directory too. Both normal. */
bool path_match(const char *pattern, const char *path);
