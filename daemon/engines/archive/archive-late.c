/*
 * The library's headers declare each function that is defined here, so a definition with other
 * parameters does not compile. The library is searched only where the linker would have searched
 * it.
 */
#include "daemon/engines/archive/archive-late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <archive.h>
#include <archive_entry.h>

#include "common/util/cleanup.h"
#include "common/util/log.h"

#define LATE_NAME "libarchive.so.13" /* the name for all versions from 3.0 on */

/* result, name, parameters, arguments */
#define LATE_FUNCTIONS(F)                                                                          \
	F(int, archive_errno, (struct archive * a), (a))                                           \
	F(const char *, archive_error_string, (struct archive * a), (a))                           \
	F(la_int64_t, archive_filter_bytes, (struct archive * a, int n), (a, n))                   \
	F(int, archive_read_append_filter, (struct archive * a, int code), (a, code))              \
	F(int, archive_read_data_block,                                                            \
	  (struct archive * a, const void **data, size_t *size, la_int64_t *offset),               \
	  (a, data, size, offset))                                                                 \
	F(int, archive_read_free, (struct archive * a), (a))                                       \
	F(int, archive_read_next_header, (struct archive * a, struct archive_entry * *entry),      \
	  (a, entry))                                                                              \
	F(int, archive_read_open,                                                                  \
	  (struct archive * a, void *arg, archive_open_callback *open,                             \
	   archive_read_callback *read, archive_close_callback *close),                            \
	  (a, arg, open, read, close))                                                             \
	F(int, archive_read_open1, (struct archive * a), (a))                                      \
	F(int, archive_read_set_callback_data, (struct archive * a, void *data), (a, data))        \
	F(int, archive_read_set_read_callback, (struct archive * a, archive_read_callback * f),    \
	  (a, f))                                                                                  \
	F(int, archive_read_set_seek_callback, (struct archive * a, archive_seek_callback * f),    \
	  (a, f))                                                                                  \
	F(int, archive_read_set_skip_callback, (struct archive * a, archive_skip_callback * f),    \
	  (a, f))                                                                                  \
	F(int, archive_read_support_filter_bzip2, (struct archive * a), (a))                       \
	F(int, archive_read_support_filter_compress, (struct archive * a), (a))                    \
	F(int, archive_read_support_filter_gzip, (struct archive * a), (a))                        \
	F(int, archive_read_support_filter_lz4, (struct archive * a), (a))                         \
	F(int, archive_read_support_filter_lzip, (struct archive * a), (a))                        \
	F(int, archive_read_support_filter_lzma, (struct archive * a), (a))                        \
	F(int, archive_read_support_filter_xz, (struct archive * a), (a))                          \
	F(int, archive_read_support_filter_zstd, (struct archive * a), (a))                        \
	F(int, archive_read_support_format_empty, (struct archive * a), (a))                       \
	F(int, archive_read_support_format_raw, (struct archive * a), (a))                         \
	F(int, archive_read_support_format_tar, (struct archive * a), (a))                         \
	F(int, archive_read_support_format_zip_seekable, (struct archive * a), (a))                \
	F(int, archive_read_support_format_zip_streamable, (struct archive * a), (a))              \
	F(mode_t, archive_entry_filetype, (struct archive_entry * e), (e))                         \
	F(const char *, archive_entry_hardlink, (struct archive_entry * e), (e))                   \
	F(int, archive_entry_is_encrypted, (struct archive_entry * e), (e))                        \
	F(time_t, archive_entry_mtime, (struct archive_entry * e), (e))                            \
	F(int, archive_entry_mtime_is_set, (struct archive_entry * e), (e))                        \
	F(long, archive_entry_mtime_nsec, (struct archive_entry * e), (e))                         \
	F(const char *, archive_entry_pathname, (struct archive_entry * e), (e))                   \
	F(mode_t, archive_entry_perm, (struct archive_entry * e), (e))                             \
	F(la_int64_t, archive_entry_size, (struct archive_entry * e), (e))                         \
	F(int, archive_entry_size_is_set, (struct archive_entry * e), (e))                         \
	F(int, archive_entry_sparse_count, (struct archive_entry * e), (e))                        \
	F(const char *, archive_entry_symlink, (struct archive_entry * e), (e))

#define LATE_POINTER(result, name, parameters, arguments) __typeof__(&name) name;
#define LATE_SYMBOL(result, name, parameters, arguments) { #name, &late.name },
/* clang-format off: parentheses would make these calls */
#define LATE_CALL(result, name, parameters, arguments)                                             \
	result name parameters                                                                     \
	{                                                                                          \
		return late.name arguments;                                                        \
	}
/* clang-format on */

static struct {
	__typeof__(&archive_read_new) archive_read_new;
	__typeof__(&archive_set_error) archive_set_error;
	LATE_FUNCTIONS(LATE_POINTER)
} late;

static const struct late_symbol {
	const char *name;
	void *place; /* address of the pointer to the function */
} late_symbols[] = { { "archive_read_new", &late.archive_read_new },
		     { "archive_set_error", &late.archive_set_error },
		     LATE_FUNCTIONS(LATE_SYMBOL) };

static pthread_once_t late_once = PTHREAD_ONCE_INIT;
static bool late_is_loaded;

static void late_init(void)
{
	void *lib = dlopen(LATE_NAME, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; lib && i < ARRAY_SIZE(late_symbols); i++) {
		void *symbol = dlsym(lib, late_symbols[i].name);

		if (!symbol) {
			lib = NULL;
			break;
		}
		memcpy(late_symbols[i].place, &symbol, sizeof(symbol));
	}
	if (!lib)
		log_error("%s", dlerror());
	late_is_loaded = lib;
}

bool archive_late_load(void)
{
	pthread_once(&late_once, late_init);
	return late_is_loaded;
}

struct archive *archive_read_new(void)
{
	return archive_late_load() ? late.archive_read_new() : NULL;
}

void archive_set_error(struct archive *a, int errnum, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	late.archive_set_error(a, errnum, "%s", text);
}

/* Without archive_read_new(), there is no struct archive, so these pointers are set. */
LATE_FUNCTIONS(LATE_CALL)
