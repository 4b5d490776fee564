/*
 * A page of a listing, or an error of S3. What it takes for objects has keys and sizes, and a key that
 * passes for a path has no component that leads out.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "daemon/worker/s3-list.h"
#include "daemon/worker/s3-tree.h"

static int take(void *arg, const struct s3_object *o, struct error *err)
{
	size_t n = strnlen(o->key, sizeof(o->key));

	FUZZ_CHECK(n > 0 && n < sizeof(o->key) && o->size != UINT64_MAX);
	FUZZ_CHECK(strnlen(o->etag, sizeof(o->etag)) < sizeof(o->etag));
	if (s3_tree_check_name(o->key, NULL) == 1) {
		FUZZ_CHECK(o->key[0] != '/' && o->key[n - 1] != '/' && !strstr(o->key, "//"));
		FUZZ_CHECK(strncmp(o->key, "../", 3) && strcmp(o->key, "..") && !strstr(o->key, "/../"));
		FUZZ_CHECK(n < 3 || strcmp(o->key + n - 3, "/.."));
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct s3_page page;
	char text[64];
	int r = s3_list_read((const char *)data, size, &page, take, NULL, NULL);

	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	FUZZ_CHECK(strnlen(page.token, sizeof(page.token)) < sizeof(page.token));
	if (s3_xml_get((const char *)data, size, "Code", text, sizeof(text)))
		FUZZ_CHECK(strnlen(text, sizeof(text)) < sizeof(text));
	return 0;
}
