/*
 * A dataset of the file is turned into the message of the protocol that stagingd would have sent,
 * so that the rest of the program cannot tell them apart, and checks both in one place.
 */
#include "client/report-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client/json-read.h"
#include "client/json.h"
#include "client/snapshot.h"
#include "client/timeline.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "stage-build.h"

#define MAX_KEY 32

/* clang-format off */
static const struct field {
	const char *name, *key; /* name in the file, key in the message */
	bool number;
} fields[] = {
	{ "job",          "job",      false },
	{ "name",         "name",     false },
	{ "node",         "node",     false },
	{ "state",        "state",    false },
	{ "source",       "source",   false },
	{ "method",       "method",   false },
	{ "tier",         "tier",     false },
	{ "bytes",        "bytes",    true },
	{ "total",        "total",    true },
	{ "files",        "files",    true },
	{ "code",         "code",     true },
	{ "reason",       "reason",   false },
	{ "cause",        "cause",    false },
	{ "begun_ms",     "begun",    true },
	{ "age_ms",       "age",      true },
	{ "last_read_ms", "lastread", true },
	{ "memory_taken", "memtaken", true },
	{ "memory_most",  "memmost",  true },
	{ "memory_bound", "membound", false },
};
/* clang-format on */

static void write_history(const struct timeline *t, struct json *j)
{
	json_open_array(j, "states");
	for (size_t i = 0; i < t->n_states; i++) {
		json_open_object(j, NULL);
		json_put_text(j, "state", stage_state_to_string(t->states[i].state));
		json_put_u64(j, "ms", t->states[i].ms);
		json_close_object(j);
	}
	json_close_array(j);
	json_open_array(j, "series");
	for (size_t i = 0; i < t->n_points; i++) {
		json_open_object(j, NULL);
		json_put_u64(j, "ms", t->points[i].ms);
		json_put_u64(j, "bytes", t->points[i].bytes);
		json_close_object(j);
	}
	json_close_array(j);
}

int report_file_write(const struct timeline_list *l, FILE *f)
{
	struct json j;

	json_init(&j, f);
	json_open_object(&j, NULL);
	json_put_text(&j, "version", STAGE_VERSION);
	json_put_u64(&j, "report", REPORT_FILE_FORMAT);
	json_open_array(&j, "datasets");
	for (size_t i = 0; i < l->n_items; i++) {
		const struct kv *kv = l->items[i].snapshot->kv;

		json_open_object(&j, NULL);
		for (const struct field *e = fields; e < fields + ARRAY_SIZE(fields); e++) {
			if (!e->number)
				json_put_text(&j, e->name, kv_get_or_empty(kv, e->key));
			else if (kv_get(kv, e->key))
				json_put_u64(&j, e->name, kv_get_u64(kv, e->key, 0));
		}
		write_history(&l->items[i], &j);
		json_close_object(&j);
	}
	json_close_array(&j);
	json_close_object(&j);
	fputc('\n', f);
	return 0;
}

/* Reads {"state": TEXT, "ms": NUMBER} and writes "TEXT:NUMBER"; reads {"ms": A, "bytes": B} and
 * writes "A:B". */
static bool read_pair(struct json_reader *r, FILE *to, bool of_states)
{
	_cleanup_(freep) char *state = NULL;
	uint64_t ms = 0, bytes = 0;
	char key[MAX_KEY];

	for (bool first = true; json_read_member(r, &first, key, sizeof(key));) {
		if (!strcmp(key, "ms"))
			json_read_u64(r, &ms);
		else if (!strcmp(key, "bytes"))
			json_read_u64(r, &bytes);
		else if (!strcmp(key, "state") && !state)
			json_read_text(r, &state);
		else
			json_skip(r);
	}
	if (of_states)
		fprintf(to, "%s:%llu", state ?: "", (unsigned long long)ms);
	else
		fprintf(to, "%llu:%llu", (unsigned long long)ms, (unsigned long long)bytes);
	return !r->failed;
}

static void read_pairs(struct json_reader *r, struct kv *kv, const char *key)
{
	_cleanup_(freep) char *text = NULL;
	size_t size, n = 0;
	FILE *f = open_memstream(&text, &size);

	for (bool first = true; f && json_read_element(r, &first); n++) {
		if (n)
			fputc(' ', f);
		if (!read_pair(r, f, !strcmp(key, "states")))
			break;
	}
	if (f && fclose(f) == 0)
		kv_set(kv, key, text);
	else
		r->failed = true;
}

static void read_field(struct json_reader *r, struct kv *kv, const char *name)
{
	_cleanup_(freep) char *text = NULL;
	const struct field *e = fields;
	uint64_t number;

	while (e < fields + ARRAY_SIZE(fields) && strcmp(e->name, name))
		e++;
	if (e == fields + ARRAY_SIZE(fields))
		json_skip(r);
	else if (json_read_null(r))
		return;
	else if (e->number && json_read_u64(r, &number))
		kv_set_u64(kv, e->key, number);
	else if (!e->number && json_read_text(r, &text))
		kv_set(kv, e->key, text);
}

/* Returns 0, -EPROTO or -ENOMEM. */
static int read_dataset(struct json_reader *r, struct snapshot_list *l)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct timeline t;
	char key[MAX_KEY];
	const void *data;
	size_t size;
	int ret;

	if (kv_new(&kv) < 0)
		return -ENOMEM;
	for (bool first = true; json_read_member(r, &first, key, sizeof(key));) {
		if (!strcmp(key, "states") || !strcmp(key, "series"))
			read_pairs(r, kv, key);
		else
			read_field(r, kv, key);
	}
	if (r->failed || l->n_items == REPORT_FILE_MAX_DATASETS)
		return -EPROTO;
	ret = kv_get_data(kv, &data, &size);
	if (ret == 0)
		ret = snapshot_list_add(l, &kv);
	if (ret == 0 && timeline_from_snapshot(&t, &l->items[l->n_items - 1]) < 0)
		ret = -EPROTO;
	return ret > 0 ? -EPROTO : ret;
}

static bool read_datasets(struct json_reader *r, struct snapshot_list *l)
{
	for (bool first = true; json_read_element(r, &first);)
		if (read_dataset(r, l) < 0)
			r->failed = true;
	return !r->failed;
}

int report_file_parse(struct snapshot_list *l, const char *text, size_t size, struct error *err)
{
	struct json_reader r;
	uint64_t format = 0;
	char key[MAX_KEY];

	json_read_init(&r, text, size);
	for (bool first = true; json_read_member(&r, &first, key, sizeof(key));) {
		if (!strcmp(key, "report") && json_read_u64(&r, &format) &&
		    format != REPORT_FILE_FORMAT)
			return error_set(err, EPROTO,
					 "it has format %llu, and this stagectl reads format %d",
					 (unsigned long long)format, REPORT_FILE_FORMAT);
		if (!strcmp(key, "datasets"))
			read_datasets(&r, l);
		else if (strcmp(key, "report") != 0)
			json_skip(&r);
	}
	if (json_read_end(&r) && format)
		return 0;
	if (l->n_items == REPORT_FILE_MAX_DATASETS)
		return error_set(err, E2BIG, "it has more than %d datasets",
				 REPORT_FILE_MAX_DATASETS);
	return error_set(err, EPROTO,
			 "this is not what `stagectl report --save` has written; byte %zu is wrong",
			 (size_t)(r.p - text) + 1);
}

int report_file_read(struct snapshot_list *l, const char *path, struct error *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_(freep) char *text = NULL;
	size_t size;
	int r = fd < 0 ? -errno : fd_read_file(fd, REPORT_FILE_MAX_SIZE, &text, &size);

	if (r < 0)
		return error_errno(err, -r, "read %s", path);
	r = report_file_parse(l, text, size, err);
	if (r < 0)
		error_prefix(err, "read %s", path);
	return r;
}
