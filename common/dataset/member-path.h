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

/*
 * The normal, relative form of a member's name ("./a//b/", "/a/b" -> "a/b"; "" is the top itself).
 * Refused by -EINVAL: ".."; by -ENAMETOOLONG: too deep, too long.
 */
int member_path_clean(const char *path, char buf[static MEMBER_PATH_SIZE], struct error *err);

/* "./a//b/./" -> "a/b", in place: a directory that a user names. "." is "". A "/" in front and ".."
 * stay. */
void member_path_trim(char *path);

/* Cuts subdir (NULL: none) and strip components from a clean path, in place. False: the member is
 * left out (it is outside subdir, or nothing is left of its name). The name of subdir itself
 * becomes "". */
bool member_path_cut(char *path, const char *subdir, uint32_t strip);

/* "train/n01.tar.gz" -> "train/n01": where a nested archive goes. In place; a name without a suffix
 * of ours is left as it is, as are "..tar" and "...tar". */
void member_path_cut_suffix(char *path);
