/*
 * member-path: checks the names of archive members and removes leading parts. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define MEMBER_PATH_SIZE 4096
#define MEMBER_MAX_COMPONENTS 128
#define MEMBER_MAX_NAME 255

/* Writes the normal, relative form of a member's name: "./a//b/" and "/a/b" become "a/b"; "" is the
 * top directory. Returns 0, -EINVAL for a name with "..", or -ENAMETOOLONG if it is too deep or too
 * long. */
int member_path_clean(const char *path, char buf[static MEMBER_PATH_SIZE], struct error *err);

/* Normalizes a directory that a user names, in place: "./a//b/./" becomes "a/b", "." becomes "".
 * Keeps a leading "/" and "..". */
void member_path_trim(char *path);

/* Removes subdir (NULL: none) and then `strip` components from a clean path, in place. Returns
 * false if the member is left out: it is outside subdir, or nothing is left of its name. The name
 * of subdir itself becomes "". */
bool member_path_cut(char *path, const char *subdir, uint32_t strip);

/* Makes the name of a nested archive's directory, in place: "train/n01.tar.gz" becomes "train/n01".
 * A name without a known suffix is unchanged, and so are "..tar" and "...tar". */
void member_path_cut_suffix(char *path);
