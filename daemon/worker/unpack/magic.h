/*
 * magic: what a file is by its first bytes. Pure; never by name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/worker/facts.h"

#define MAGIC_SIZE 512 /* bytes that are enough to tell */

/* Frames that zstd and lz4 pass over may stand in front: those that data has. */
enum facts_filter magic_get_filter(const void *data, size_t size);

/* How long such a frame at data is; 0: there is none. */
uint64_t magic_get_skippable(const void *data, size_t size);

/* Of unfiltered bytes. A tar is told by the checksum of its first header (v7, ustar, GNU, pax). */
enum facts_format magic_get_format(const void *data, size_t size);

/* A number of a tar's header: octal digits with blanks around; -1: none. */
int64_t magic_read_octal(const unsigned char *p, size_t n);

/* What a file's name promises to hold: "x.tar.zst", "x.tgz" FORMAT_TAR; "x.sqsh" FORMAT_SQUASHFS;
 * FORMAT_PLAIN where it promises nothing. For doubts about the content, never to tell it. */
enum facts_format magic_get_promise(const char *name);

/* An archive a reader of ours could open, wrapped or not, for members of archives: of what is
 * wrapped in a filter the name has to say whether it is a tar. */
bool magic_is_archive(const void *data, size_t size, const char *name);
