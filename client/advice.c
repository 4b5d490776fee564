/*
 * Suggests what would be faster. Only suggestions that follow from the facts are made, the most
 * useful first. They contain no times, because this file system was not measured.
 */
#include "client/plan-ask.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"

#define MANY_FILES 2000
#define SMALL_FILE (1ULL << 20)
#define BIG_ARCHIVE (1ULL << 30)

static void advice_add(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void advice_add(char *buf, size_t size, const char *fmt, ...)
{
	size_t n = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + n, size - n, fmt, ap);
	va_end(ap);
}

/* For a directory of many small files, most of the time is needed to open them. */
static void advise_pack(const struct kv *facts, const char *source, char *buf, size_t size)
{
	uint64_t bytes = kv_get_u64(facts, "total", 0), n = kv_get_u64(facts, "nfiles", 0);
	char average[PARSE_SIZE_TEXT];

	if (strcmp(kv_get_or_empty(facts, "kind"), "dir") || n < MANY_FILES ||
	    bytes / n > SMALL_FILE || strcmp(kv_get_or_empty(facts, "format"), "plain"))
		return;
	advice_add(buf, size,
		   "%llu files of %s on average are slow to open one by one: pack them once,\n"
		   "  stagectl pack --if-missing %s %s.sqsh\n"
		   "and stage the image: it is mounted at once, or copied in one stream (:shm).\n",
		   (unsigned long long)n, size_to_string(bytes / n, average), source, source);
}

static void advise_decoder(const struct kv *facts, char *buf, size_t size)
{
	const char *format = kv_get_or_empty(facts, "format");
	const char *filter = strchr(format, '+');

	if (!filter || strcmp(kv_get_or_empty(facts, "method"), "extract"))
		return;
	if (strcmp(filter, "+gzip") && strcmp(filter, "+xz") && strcmp(filter, "+bzip2"))
		return;
	advice_add(buf, size,
		   "%s is decompressed by one thread and slowly: zstd is several times faster, "
		   "and JPEG\nor the like needs no compression at all.\n",
		   filter + 1);
}

static void advise_image(const struct kv *facts, char *buf, size_t size)
{
	const char *method = kv_get_or_empty(facts, "method");
	const char *tier = kv_get_or_empty(facts, "tier");

	if (!strcmp(method, "extract") && kv_get_u64(facts, "total", 0) >= BIG_ARCHIVE)
		advice_add(buf, size,
			   "A squashfs image of the same files needs no extraction: the job can "
			   "begin at once.\n");
	if (!strcmp(method, "mount") && !strcmp(tier, "source"))
		advice_add(
			buf, size,
			"The files are read from the source when the job opens them: if it reads "
			"them more\nthan once, :shm or :ssd copies the source first.\n");
}

void plan_get_advice(const struct kv *facts, const char *source, char *buf, size_t size)
{
	buf[0] = '\0';
	advise_pack(facts, source, buf, size);
	advise_decoder(facts, buf, size);
	advise_image(facts, buf, size);
}
