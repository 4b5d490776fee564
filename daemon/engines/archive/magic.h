/*
 * magic: the format of a file by its first bytes, and the format that its name promises. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/facts.h"

#define MAGIC_SIZE 512 /* bytes that are enough to recognise a format */

/* Returns the compression of the data. Skippable frames of zstd and lz4 at the beginning are passed
 * over, if data contains them. */
enum facts_filter magic_get_filter(const void *data, size_t size);

/* Returns the size of the skippable frame at data; 0: there is none. */
uint64_t magic_get_skippable(const void *data, size_t size);

/* Returns the format of bytes that are not compressed. A tar is recognised by its first header's
 * checksum (v7, ustar, GNU, pax). */
enum facts_format magic_get_format(const void *data, size_t size);

/* Returns a number of a tar's header: octal digits, with blanks around them; -1: there is none. */
int64_t magic_read_octal(const unsigned char *p, size_t n);

/* Returns the format that a file's name promises: FORMAT_TAR for "x.tar.zst" and "x.tgz",
 * FORMAT_SQUASHFS for "x.sqsh", FORMAT_PLAIN for all other names, also for "x.pth.tar", a
 * checkpoint of PyTorch. */
enum facts_format magic_get_promise(const char *name);

/* A kind of content that is found where an archive or data was expected. */
struct magic_unexpected {
	const char *what; /* "a web page, …" */
	const char *fix;
	bool is_data; /* the user may want this file, so copying it gives no warning */
	bool is_page; /* a web page: on the web, the user wants it if the address names a page */
};

/* Returns the kind of content, which is static; NULL: none of these. */
const struct magic_unexpected *magic_get_unexpected(const void *data, size_t size);

/* Does the same for a file that begins with zeros, by its first MAGIC_ZEROS_SIZE bytes. */
#define MAGIC_ZEROS_SIZE (64 << 10)
const struct magic_unexpected *magic_get_unexpected_after_zeros(const void *data, size_t size);

/* Content that is compressed twice. */
extern const struct magic_unexpected magic_compressed_twice;

/* Compressed data without any content. */
extern const struct magic_unexpected magic_nothing_compressed;

/* A zip with other data before it, whose list of files is not found. */
extern const struct magic_unexpected magic_zip_behind_data;

/* Returns true if the address names a web page or an XML file. */
bool magic_names_page(const char *url);

/* Returns true if a file with content of this format is meant as an archive, by the promise of its
 * name. Many file formats are zips or tars inside: "x.pt", "x.npz", "x.docx", "x.nemo". */
bool magic_means_archive(enum facts_format format, enum facts_format promise);

/* Returns true if a member is an archive that is meant to be one, compressed or not. */
bool magic_is_archive(const void *data, size_t size, const char *name);
