#include "daemon/engines/archive/magic.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/util/le.h"
#include "common/util/suffix.h"

#define TAR_HEADER_SIZE 512
#define TAR_CHECKSUM_AT 148
#define TAR_CHECKSUM_SIZE 8
#define LZMA_HEADER_SIZE 13
#define ISO_9660_AT 32769
#define OLD_CPIO_HEADER_SIZE 26
#define SKIPPABLE_MAGIC 0x184d2a50u /* and the next 15 numbers */

static const struct {
	const char *magic;
	size_t size;
	enum facts_filter filter;
} filters[] = {
	{ "\x1f\x8b\x08", 3, FILTER_GZIP },
	{ "\x28\xb5\x2f\xfd", 4, FILTER_ZSTD },
	{ "\x04\x22\x4d\x18", 4, FILTER_LZ4 },
	{ "\xfd"
	  "7zXZ\0",
	  6, FILTER_XZ },
	{ "BZh", 3, FILTER_BZIP2 },
	{ "LZIP\1", 5, FILTER_LZIP },
	{ "\x1f\x9d", 2, FILTER_COMPRESS },
	{ "\x89LZO\0\r\n\x1a\n", 9, FILTER_LZO },
};

/* Recognises .lzma, which has no magic number, by the header that xz and 7-Zip write: the usual
 * parameters, a dictionary size that they use, and the content's size or "not known". libarchive
 * does not require more. Whether the content is a tar is seen after decompression. */
static bool is_lzma(const unsigned char b[static LZMA_HEADER_SIZE])
{
	bool known = memcmp(b + 5, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) != 0;
	uint32_t dict = le_u32(b + 1);

	if ((b[0] != 0x5d && b[0] != 0x5e) || (known && (b[10] | b[11] | b[12])))
		return false;
	if (dict >= 1u << 12 && dict <= 1u << 27 && (dict & (dict - 1)) == 0)
		return true;
	return !known && dict % (1u << 20) == 0 && dict >= 3u << 20 && dict < 64u << 20;
}

uint64_t magic_get_skippable(const void *data, size_t size)
{
	const unsigned char *b = data;

	if (size < 8 || (le_u32(b) & ~15u) != SKIPPABLE_MAGIC)
		return 0;
	return 8 + (uint64_t)le_u32(b + 4);
}

/* Recognises data that does not begin with a skippable frame. */
static enum facts_filter get_filter(const void *data, size_t size)
{
	const unsigned char *b = data;

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		if (size < filters[i].size || memcmp(data, filters[i].magic, filters[i].size))
			continue;
		/* a text may begin with "BZh", too; in bzip2, a level and the magic number of a
		 * block or of the end follow */
		if (filters[i].filter == FILTER_BZIP2 &&
		    (size < 10 || b[3] < '1' || b[3] > '9' ||
		     (memcmp(b + 4, "1AY&SY", 6) && memcmp(b + 4, "\x17\x72\x45\x38\x50\x90", 6))))
			continue;
		return filters[i].filter;
	}
	return size >= LZMA_HEADER_SIZE && is_lzma(b) ? FILTER_LZMA : FILTER_NONE;
}

/* zstd and lz4 have the same skippable frames. If data ends before the next frame, it is zstd,
 * because pzstd writes such frames. */
enum facts_filter magic_get_filter(const void *data, size_t size)
{
	const unsigned char *b = data;
	uint64_t n;

	if (size < 4 || (le_u32(b) & ~15u) != SKIPPABLE_MAGIC)
		return get_filter(data, size);
	while ((n = magic_get_skippable(b, size)) > 0 && n < size) {
		b += n;
		size -= (size_t)n;
	}
	return get_filter(b, size) == FILTER_LZ4 ? FILTER_LZ4 : FILTER_ZSTD;
}

int64_t magic_read_octal(const unsigned char *p, size_t n)
{
	int64_t v = 0;
	size_t i = 0, digits = 0;

	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++, digits++)
		v = v * 8 + (p[i] - '0');
	if (digits == 0 || (i < n && p[i] != ' ' && p[i] != '\0'))
		return -1;
	return v;
}

static bool is_tar_header(const unsigned char *h)
{
	int64_t want = magic_read_octal(h + TAR_CHECKSUM_AT, TAR_CHECKSUM_SIZE), sum = 0,
		sum_signed = 0;

	if (want < 0)
		return false; /* the usual case; this is fast, because each file of an archive is
			       * checked */
	for (size_t i = 0; i < TAR_HEADER_SIZE; i++) {
		bool blank = i >= TAR_CHECKSUM_AT && i < TAR_CHECKSUM_AT + TAR_CHECKSUM_SIZE;

		sum += blank ? ' ' : h[i];
		sum_signed += blank ? ' ' : (signed char)h[i];
	}
	return want == sum || want == sum_signed;
}

enum facts_format magic_get_format(const void *data, size_t size)
{
	if (size >= 4 && (!memcmp(data, "hsqs", 4) || !memcmp(data, "sqsh", 4)))
		return FORMAT_SQUASHFS;
	if (size >= 4 && (!memcmp(data, "PK\3\4", 4) || !memcmp(data, "PK\5\6", 4)))
		return FORMAT_ZIP;
	if (size >= TAR_HEADER_SIZE && is_tar_header(data))
		return FORMAT_TAR;
	return FORMAT_PLAIN;
}

const struct magic_unexpected magic_compressed_twice = {
	"compressed twice",
	"unpack it once (gzip -dc FILE >NEW.tar.gz, or what has compressed it)",
	true,
};

const struct magic_unexpected magic_nothing_compressed = {
	"compressed, with nothing in it",
	"make or copy it again",
	true,
};

const struct magic_unexpected magic_zip_behind_data = {
	"a zip with other data before it, whose list of files can't be found",
	"extract it with unzip and make it again by zip -r",
	true,
};

static const struct magic_unexpected iso_9660 = {
	"an ISO 9660 image, which is not unpacked here",
	"unpack it elsewhere (bsdtar -xf) and pack it as a tar",
	true,
};

const struct magic_unexpected *magic_get_unexpected_after_zeros(const void *data, size_t size)
{
	const char *p = (const char *)data + ISO_9660_AT;

	return size >= ISO_9660_AT + 5 && !memcmp(p, "CD001", 5) ? &iso_9660 : NULL;
}

static const struct {
	const char *magic;
	bool is_text; /* ignores case, and blanks and a byte order mark at the beginning */
	struct magic_unexpected other;
} others[] = {
	{ "version https://git-lfs.github.com/spec/",
	  false,
	  { "a pointer of Git LFS, and not the file itself",
	    "git lfs pull in its repository brings the content", false } },
	{ "/annex/objects/",
	  false,
	  { "a pointer of git-annex, and not the file itself",
	    "git annex get in its repository brings the content", false } },
	{ "7z\xbc\xaf\x27\x1c",
	  false,
	  { "a 7z archive, which is not unpacked here",
	    "unpack it elsewhere (7z x) and pack it as a tar", false } },
	{ "Rar!\x1a\x07",
	  false,
	  { "a rar archive, which is not unpacked here",
	    "unpack it elsewhere (7z x) and pack it as a tar", false } },
	{ "PK\7\10PK\3\4",
	  false,
	  { "the first part of a zip that was made in several parts (.z01, .z02, ...)",
	    "join them elsewhere: zip -s 0 FILE.zip --out NEW.zip", false } },
	{ "!<arch>\ndebian-binary",
	  false,
	  { "a Debian package, which is not unpacked here",
	    "unpack it elsewhere (dpkg-deb -x FILE DIR) and pack it as a tar", true } },
	{ "!<arch>\n",
	  false,
	  { "an ar archive, which is not unpacked here",
	    "unpack it elsewhere (ar x) and pack it as a tar", true } },
	{ "LRZI",
	  false,
	  { "packed by lrzip, which can't be unpacked here",
	    "decompress it elsewhere (lrzip -d), and name the tar", false } },
	{ "RZIP",
	  false,
	  { "packed by rzip, which can't be unpacked here",
	    "decompress it elsewhere (rzip -d), and name the tar", false } },
	{ "GRZipII",
	  false,
	  { "packed by grzip, which can't be unpacked here",
	    "decompress it elsewhere (grzip -d), and name the tar", false } },
	{ "WARC/",
	  false,
	  { "a WARC archive, which is not unpacked here",
	    "unpack it elsewhere (bsdtar -xf) and pack it as a tar", true } },
	{ "\xed\xab\xee\xdb",
	  false,
	  { "an RPM package, which is not unpacked here",
	    "unpack it elsewhere (bsdtar -xf) and pack it as a tar", true } },
	{ "xar!",
	  false,
	  { "a xar archive, which is not unpacked here",
	    "unpack it elsewhere (bsdtar -xf) and pack it as a tar", true } },
	{ "MSCF",
	  false,
	  { "a cabinet file of Windows, which is not unpacked here",
	    "unpack it elsewhere (bsdtar -xf) and pack it as a tar", true } },
	{ "\x02\x21\x4c\x18",
	  false,
	  { "packed by lz4 in its legacy format, which can't be unpacked here",
	    "pack it again (lz4 -dc FILE | lz4 >NEW.tar.lz4)", true } },
	{ "Salted__",
	  false,
	  { "encrypted by openssl", "decrypt it first (openssl enc -d -in FILE -out NEW)", true } },
	{ "age-encryption.org/v1",
	  false,
	  { "encrypted by age", "decrypt it first (age -d)", true } },
	{ "-----BEGIN PGP MESSAGE",
	  false,
	  { "encrypted by gpg", "decrypt it first (gpg -d FILE >NEW)", true } },
	{ "\x8c\x0d\x04",
	  false,
	  { "encrypted by gpg", "decrypt it first (gpg -d FILE >NEW)", true } },
	{ "<!doctype html",
	  true,
	  { "a web page, as servers send it instead of a file that needs a login",
	    "look into it, and download the file again", true, true } },
	{ "<html",
	  true,
	  { "a web page, as servers send it instead of a file that needs a login",
	    "look into it, and download the file again", true, true } },
	{ "<!--",
	  true,
	  { "a web page, as servers send it instead of a file that needs a login",
	    "look into it, and download the file again", true, true } },
	{ "<?xml",
	  true,
	  { "a text in XML, as servers send it instead of a file",
	    "look into it, and download the file again", true, true } },
};

static const struct magic_unexpected cpio = {
	"a cpio archive, which is not unpacked here",
	"unpack it elsewhere (cpio -id) and pack it as a tar",
	true,
};

static const struct magic_unexpected lha = {
	"an lha archive, which is not unpacked here",
	"unpack it elsewhere (7z x) and pack it as a tar",
	true,
};

/* Recognises the old binary format, which cpio writes without -H. Its numbers have the byte order
 * of the machine. */
static bool is_old_cpio(const unsigned char *b, size_t size)
{
	bool is_little = size >= OLD_CPIO_HEADER_SIZE && b[0] == 0xc7 && b[1] == 0x71;
	bool is_big = size >= OLD_CPIO_HEADER_SIZE && b[0] == 0x71 && b[1] == 0xc7;
	size_t n_name = is_little ? b[20] | (size_t)b[21] << 8
			: is_big  ? b[21] | (size_t)b[20] << 8
				  : 0;

	return n_name > 1 && n_name <= size - OLD_CPIO_HEADER_SIZE &&
	       strnlen((const char *)b + OLD_CPIO_HEADER_SIZE, n_name) == n_name - 1;
}

static bool is_lha(const unsigned char *b, size_t size)
{
	return size >= 7 && (!memcmp(b + 2, "-lh", 3) || !memcmp(b + 2, "-lz", 3)) && b[6] == '-';
}

const struct magic_unexpected *magic_get_unexpected(const void *data, size_t size)
{
	const char *text = data, *end = text + size, *p = text;

	if ((size >= 5 && !memcmp(data, "07070", 5)) || is_old_cpio(data, size))
		return &cpio;
	if (is_lha(data, size))
		return &lha;
	if (size >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *from = others[i].is_text ? p : text;
		size_t n = strlen(others[i].magic);

		if ((size_t)(end - from) < n)
			continue;
		if (others[i].is_text ? !strncasecmp(from, others[i].magic, n)
				      : !memcmp(from, others[i].magic, n))
			return &others[i].other;
	}
	return NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n > m && !strcasecmp(s + n - m, end);
}

bool magic_names_page(const char *url)
{
	static const char *const ends[] = { ".html", ".htm", ".xhtml", ".xml", ".svg" };
	char path[256];
	int n = (int)strcspn(url, "?#"),
	    from = n < (int)sizeof(path) ? 0 : n - (int)sizeof(path) + 1;

	snprintf(path, sizeof(path), "%.*s", n - from, url + from);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (ends_with(path, ends[i]))
			return true;
	}
	return false;
}

enum facts_format magic_get_promise(const char *name)
{
	static const enum facts_format formats[] = {
		[SUFFIX_TAR] = FORMAT_TAR,
		[SUFFIX_ZIP] = FORMAT_ZIP,
		[SUFFIX_IMAGE] = FORMAT_SQUASHFS,
		[SUFFIX_STREAM] = FORMAT_PLAIN,
	};
	const struct suffix *s = suffix_find(name, strlen(name));

	/* torch.save() writes a zip, and wrote a pickle before version 1.6 */
	if (ends_with(name, ".pth.tar") || ends_with(name, ".pt.tar") ||
	    ends_with(name, ".ckpt.tar"))
		return FORMAT_PLAIN;
	return s ? formats[s->kind] : FORMAT_PLAIN;
}

/* A zip named ".tar" is not meant as an archive: checkpoints have such names. */
bool magic_means_archive(enum facts_format format, enum facts_format promise)
{
	if (format == FORMAT_TAR)
		return promise != FORMAT_PLAIN;
	return format == FORMAT_ZIP && promise == FORMAT_ZIP;
}

bool magic_is_archive(const void *data, size_t size, const char *name)
{
	enum facts_format promise = magic_get_promise(name);
	enum facts_filter filter;

	if (magic_means_archive(magic_get_format(data, size), promise))
		return true;
	filter = magic_get_filter(data, size);
	return filter != FILTER_NONE && filter != FILTER_LZO && promise == FORMAT_TAR;
}
