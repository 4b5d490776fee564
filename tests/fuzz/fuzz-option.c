/*
 * The value of --stage-data. A value that was read is written, and reading it again gives the same.
 */
#include "tests/fuzz/fuzz.h"

#include "common/dataset/dataset.h"

static const char *get_env(void *arg, const char *name)
{
	return name[0] == 'H' ? "/home/of,a:user" : name[0] == 'E' ? "" : NULL;
}

static void read_back(const struct dataset_list *list)
{
	_cleanup_(dataset_list_deinit) struct dataset_list again = { 0 };
	_cleanup_(freep) char *text = NULL, *text2 = NULL;
	struct error err = ERROR_INIT;

	FUZZ_CHECK(dataset_list_to_string(list, &text) == 0);
	if (strlen(text) > DATASET_MAX_VALUE)
		return; /* %xx took more room */
	if (dataset_list_from_string(&again, text, &err) < 0) {
		fprintf(stderr, "%s: %s\n", text, err.text);
		abort();
	}
	FUZZ_CHECK(again.n_items == list->n_items);
	FUZZ_CHECK(dataset_list_to_string(&again, &text2) == 0);
	FUZZ_CHECK(!strcmp(text, text2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	_cleanup_(freep) char *text = fuzz_text(data, size);
	struct error err = ERROR_INIT;
	int r = dataset_list_from_string(&list, text, &err);

	fuzz_check_error(r, &err);
	if (r < 0)
		return 0;
	read_back(&list);
	r = dataset_list_expand(&list, "/some/dir", "/home/user", get_env, NULL, &err);
	fuzz_check_error(r, &err);
	for (size_t i = 0; i < list.n_items && r >= 0; i++)
		FUZZ_CHECK(list.items[i].scheme != DATASET_SCHEME_FILE ||
			   list.items[i].source[0] == '/');
	return 0;
}
