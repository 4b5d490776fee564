/*
 * magic: the format of a file by its first bytes, and the format that its name promises. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/facts.h"

#define MAGIC_SIZE 512 /* bytes that are enough to tell */

/* Frames that zstd and lz4 pass over may stand in front: those that data has. */
enum facts_filter magic_get_filter(const void *data, size_t size);

/* How long such a frame at data is; 0: there is none. */
uint64_t magic_get_skippable(const void *data, size_t size);

/* Of unfiltered bytes. A tar is recognised by its first header's checksum (v7, ustar, GNU, pax). */
enum facts_format magic_get_format(const void *data, size_t size);

/* A number of a tar's header: octal digits with blanks around; -1: none. */
int64_t magic_read_octal(const unsigned char *p, size_t n);

/* What a file's name promises to hold: "x.tar.zst", "x.tgz" FORMAT_TAR; "x.sqsh" FORMAT_SQUASHFS;
 * FORMAT_PLAIN where it promises nothing, as "x.pth.tar" does, a checkpoint of PyTorch. */
enum facts_format magic_get_promise(const char *name);

/* What is found in the place of an archive, or of the content. */
struct magic_other {
	const char *what; /* "a web page, …" */
	const char *fix;
	bool is_data; /* a file that may be meant as it is, so nobody is warned where it is copied
		       */
	bool is_page; /* of the web: there, it is meant where the address says so */
};

/* NULL: nothing of the kind. Static. */
const struct magic_other *magic_get_other(const void *data, size_t size);

/* The same of a file that begins with zeros, by its first MAGIC_ZEROS_SIZE bytes. */
#define MAGIC_ZEROS_SIZE (64 << 10)
const struct magic_other *magic_get_other_after_zeros(const void *data, size_t size);

/* What is compressed once more inside of its compression. */
extern const struct magic_other magic_compressed_twice;

/* What compresses nothing at all. */
extern const struct magic_other magic_nothing_compressed;

/* Is a page of the web, or a text in XML, meant by that address? */
bool magic_names_page(const char *url);

/* Do people mean an archive by content of that format under a name that promises that? Many formats
 * of files are zips or tars inside: "x.pt", "x.npz", "x.docx", "x.nemo". */
bool magic_means_archive(enum facts_format format, enum facts_format promise);

/* Is a member of an archive an archive that is meant to be one, wrapped or not? */
bool magic_is_archive(const void *data, size_t size, const char *name);
