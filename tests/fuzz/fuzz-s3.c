/*
 * A page of a listing, an error of S3, or a file with keys. Each object of a listing has a key and
 * a size. A key that is accepted as a path has no component that leads out of the dataset.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "daemon/engines/web/s3-list.h"
#include "daemon/engines/web/s3-match.h"
#include "daemon/fetch/s3-keys.h"
#include "daemon/worker/web/s3-tree.h"

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static int take(void *arg, const struct s3_object *o, struct error *err)
{
	size_t n = strnlen(o->key, sizeof(o->key));

	FUZZ_CHECK(n > 0 && n < sizeof(o->key) && o->size != UINT64_MAX);
	FUZZ_CHECK(strnlen(o->etag, sizeof(o->etag)) < sizeof(o->etag));
	FUZZ_CHECK(s3_match(o->key, o->key));
	if (s3_match(o->etag, o->key)) { /* it may be a pattern as well */
		FUZZ_CHECK(!strncmp(o->etag, o->key, s3_pattern_prefix(o->etag)));
		FUZZ_CHECK(count(o->etag, '/') == count(o->key, '/'));
	}
	if (s3_tree_check_name(o->key, NULL) == 1) {
		FUZZ_CHECK(o->key[0] != '/' && o->key[n - 1] != '/' && !strstr(o->key, "//"));
		FUZZ_CHECK(strncmp(o->key, "../", 3) && strcmp(o->key, "..") &&
			   !strstr(o->key, "/../"));
		FUZZ_CHECK(n < 3 || strcmp(o->key + n - 3, "/.."));
	}
	return 0;
}

static void read_keys(const char *text, const char *profile, bool is_config)
{
	struct keys keys;
	int r = s3_keys_from_text(&keys, text, profile, is_config);
	size_t a = strnlen(keys.access, sizeof(keys.access)),
	       s = strnlen(keys.secret, sizeof(keys.secret));

	FUZZ_CHECK(a < sizeof(keys.access) && s < sizeof(keys.secret));
	FUZZ_CHECK(strnlen(keys.token, sizeof(keys.token)) < sizeof(keys.token));
	FUZZ_CHECK((r == S3_KEYS_E_SUCCESS) == (a > 0) && (a > 0) == (s > 0) &&
		   (r == 0 || !keys.token[0]));
	for (size_t i = 0; i < s; i++) /* no header can be cut by them */
		FUZZ_CHECK((unsigned char)keys.secret[i] > ' ');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *copy = fuzz_text(data, size);
	struct s3_page page;
	char text[64];
	int r = s3_list_read((const char *)data, size, &page, take, NULL, NULL);

	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	FUZZ_CHECK(strnlen(page.token, sizeof(page.token)) < sizeof(page.token));
	if (s3_xml_get((const char *)data, size, "Code", text, sizeof(text)))
		FUZZ_CHECK(strnlen(text, sizeof(text)) < sizeof(text));
	read_keys(copy, S3_KEYS_DEFAULT, false);
	read_keys(copy, "lab", true);
	return 0;
}
