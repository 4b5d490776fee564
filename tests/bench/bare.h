/*
 * bare: threads that only make the system calls that any program must make for the work, as fast as
 * possible. The times are the limits beside the benchmarks' targets. The functions are verbs of the
 * probe; any error ends the program.
 */
#pragma once

/* untar N ARCHIVE DIR: makes what is in a plain tar of directories with files; each thread has
 * directories of its own, looks at all headers and reads its files' data for itself. */
int bare_untar(int argc, char **argv);

/* headers ARCHIVE: reads the headers of a plain tar, one after the other, and nothing else. */
int bare_headers(int argc, char **argv);

/* tree N CHUNK FROM DIR: copies directories with files that lie in FROM: first all are listed, then
 * each thread takes CHUNK files at a time. */
int bare_tree(int argc, char **argv);

/* inflate N IMAGE: threads inflate the blocks of a gzip image of one file and give them through
 * pipes to one who reads them in order; prints "SECONDS BYTES". */
int bare_inflate(int argc, char **argv);

/* names TREE POINT: mounts, by FUSE and in the background, a file system of TREE's names and
 * attributes. */
int bare_names(int argc, char **argv);
