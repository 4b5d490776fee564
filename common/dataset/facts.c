#include "common/dataset/facts.h"

#include <stdio.h>

#include "common/util/cleanup.h"

const char *facts_format_to_string(enum facts_format f)
{
	static const char *const words[] = {
		[FORMAT_PLAIN] = "plain",
		[FORMAT_TAR] = "tar",
		[FORMAT_ZIP] = "zip",
		[FORMAT_SQUASHFS] = "squashfs",
	};

	return f < ARRAY_SIZE(words) ? words[f] : "plain";
}

const char *facts_filter_to_string(enum facts_filter f)
{
	static const char *const words[] = {
		[FILTER_NONE] = "",	[FILTER_GZIP] = "gzip",
		[FILTER_ZSTD] = "zstd", [FILTER_LZ4] = "lz4",
		[FILTER_XZ] = "xz",	[FILTER_BZIP2] = "bzip2",
		[FILTER_LZMA] = "lzma", [FILTER_LZIP] = "lzip",
		[FILTER_LZO] = "lzo",	[FILTER_COMPRESS] = "compress",
	};

	return f < ARRAY_SIZE(words) ? words[f] : "";
}

const char *facts_kind_to_string(enum source_kind k)
{
	return k == SOURCE_FILE ? "file" : "dir";
}

bool facts_is_archive(const struct facts *f)
{
	return f->format == FORMAT_TAR || f->format == FORMAT_ZIP;
}

const char *facts_print_links_out(uint64_t n, const char *first,
				  char buf[static FACTS_LINKS_OUT_SIZE])
{
	snprintf(buf, FACTS_LINKS_OUT_SIZE,
		 "%llu link%s out of it (%s), and what is there is not staged; links=follow copies "
		 "it",
		 (unsigned long long)n, n == 1 ? " leads" : "s lead", first);
	return buf;
}

const char *facts_print_link(const char *path, const char *to, char buf[static FACTS_LINK_SIZE])
{
	snprintf(buf, FACTS_LINK_SIZE, "%.150s -> %.150s", path, to);
	return buf;
}
