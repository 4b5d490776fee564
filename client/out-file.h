/*
 * out-file: writes a file that the user names, such as that of report --svg. A regular file is
 * replaced when the new one is complete, and keeps its mode. Symbolic links stay: their target is
 * written, also if it does not exist yet. A pipe or a device is written in place, and so is a
 * descriptor of this process, such as /dev/stdout.
 */
#pragma once

#include <stdio.h>

struct out_file {
	FILE *f;
	char *tmp, *path; /* private: tmp becomes path; NULL: written in place */
};

/* Returns 0 or -errno. After success, the caller writes to o->f, and calls out_file_close(). */
int out_file_open(struct out_file *o, const char *path);

/* result: 0, or -errno if the content is not complete; an existing file then stays as it is, if it
 * was not written in place. Returns result, or -errno if not everything was written. */
int out_file_close(struct out_file *o, int result);

/* Finds the path of the file itself, if path is a symbolic link: *realp, which the caller frees.
 * Without a link, it is path. The file may be missing. Returns 0 or -errno; -ELOOP: too many
 * links; -ENOENT: the link leads to a file without a name, as /dev/stdout may do. */
int out_file_resolve(char **realp, const char *path);
