/*
 * The first byte says what the input is: lines of nodes that report through srun, a message that is
 * written and read back as such lines, or a file of `stagectl report --save`.
 */
#include "tests/fuzz/fuzz.h"

#include "client/report.h"
#include "client/chart.h"
#include "client/report-file.h"
#include "client/snapshot.h"
#include "client/timeline.h"

static size_t feed(char *text, struct kv **lastp)
{
	_cleanup_(report_reader_freep) struct report_reader *r = NULL;
	size_t n_messages = 0;
	char *save = NULL;

	FUZZ_CHECK(report_reader_new(&r) == 0);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct kv *kv = NULL;
		const char *node = NULL;
		int ret = report_reader_feed(r, line, &node, &kv);

		FUZZ_CHECK((ret == 1) == (kv != NULL));
		FUZZ_CHECK(ret != 1 || (node && node[0] && !strchr(node, ' ')));
		if (!kv)
			continue;
		n_messages++;
		kv_free(*lastp);
		*lastp = kv;
	}
	return n_messages;
}

static void write_and_read(const uint8_t *data, size_t size)
{
	_cleanup_(kv_freep) struct kv *kv = NULL, *again = NULL;
	_cleanup_(freep) char *text = NULL;
	const void *a, *b;
	size_t n_text, n_a, n_b;
	FILE *f;

	if (kv_new_from_data(&kv, data, size) != 0)
		return;
	f = open_memstream(&text, &n_text);
	FUZZ_CHECK(f && report_write(f, "node-1", kv) == 0);
	fclose(f);
	for (size_t i = 0, n; i < n_text; i += n + 1) {
		n = strcspn(text + i, "\n");
		FUZZ_CHECK(n <= REPORT_MAX_LINE);
	}
	FUZZ_CHECK(feed(text, &again) == 1);
	FUZZ_CHECK(kv_get_data(kv, &a, &n_a) == 0 && kv_get_data(again, &b, &n_b) == 0);
	FUZZ_CHECK(n_a == n_b && !memcmp(a, b, n_a));
}

static char *write_list(const struct snapshot_list *l,
			int (*write)(const struct timeline_list *l, FILE *f))
{
	struct timeline_list lines;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	FUZZ_CHECK(f && timeline_list_init(&lines, l) == 0);
	FUZZ_CHECK(lines.n_items == l->n_items && write(&lines, f) == 0);
	fclose(f);
	timeline_list_deinit(&lines);
	return text;
}

/* What is taken can be drawn, and is the same when it is written and read again. */
static void read_file(const char *text, size_t size)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 }, again = { 0 };
	_cleanup_(freep) char *chart = NULL, *first = NULL, *second = NULL;
	struct error err = ERROR_INIT;

	if (report_file_parse(&l, text, size, &err) < 0) {
		FUZZ_CHECK(err.text[0]);
		return;
	}
	chart = write_list(&l, chart_write_svg);
	first = write_list(&l, report_file_write);
	FUZZ_CHECK(report_file_parse(&again, first, strlen(first), &err) == 0);
	second = write_list(&again, report_file_write);
	FUZZ_CHECK(!strcmp(first, second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kv_freep) struct kv *last = NULL;
	_cleanup_(freep) char *text = fuzz_text(data, size);

	if (size == 0)
		return 0;
	if (data[0] == '{')
		read_file(text, size);
	else if (data[0] & 1)
		write_and_read(data + 1, size - 1);
	else
		feed(text + 1, &last);
	return 0;
}
