/*
 * The answers of a daemon, as packets (two bytes of size each), and what stagectl prints about
 * them. Nothing in the output is a control sequence for the terminal.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "client/json.h"
#include "client/progress-bar.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "client/table.h"
#include "common/protocol/conn.h"
#include "common/protocol/proto.h"

#define MAX_PACKETS 16

static int daemon_end; /* of what conn_connect() gives */

int __wrap_conn_connect(const char *path, struct error *err);

int __wrap_conn_connect(const char *path, struct error *err)
{
	return dup(daemon_end);
}

struct screen {
	struct snapshot_list list;
	struct progress *bar, *lines;
};

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	struct screen *s = arg;
	char text[256];

	if (strcmp(op, PROTO_OP_DATASET) || snapshot_list_update(&s->list, kvp, NULL) < 0)
		return;
	progress_update(s->bar, &s->list, NULL);
	progress_update(s->lines, &s->list, NULL);
	progress_hold_text(&s->list, text, sizeof(text));
}

static void print_list(const struct snapshot_list *list, FILE *f)
{
	static const struct table_column columns[] = { { "NAME", false }, { "REASON", true } };
	_cleanup_(table_freep) struct table *t = NULL;
	struct json json;

	FUZZ_CHECK(table_new(&t, columns, ARRAY_SIZE(columns)) == 0);
	json_init(&json, f);
	for (size_t i = 0; i < list->n_items; i++) {
		const struct snapshot *s = &list->items[i];
		const char *cells[] = { s->name, s->reason };

		json_open_object(&json, NULL);
		snapshot_to_json(s, &json);
		json_close_object(&json);
		FUZZ_CHECK(table_add_row(t, cells) == 0 && table_add_note(t, s->why) == 0);
	}
	table_print(t, f);
	FUZZ_CHECK(snapshot_list_get_exit(list) >= 0 && snapshot_list_get_exit(list) <= 255);
}

/* Nothing but lines, and what the bar needs to be drawn over. */
static void check_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!strncmp(text + i, "\r\033[K", 4))
			i += 3;
		else if (!strncmp(text + i, "\033[K", 3))
			i += 2;
		else
			FUZZ_CHECK(text[i] == '\n' || text[i] == '\r' ||
				   ((unsigned char)text[i] >= ' ' && text[i] != 0x7f));
	}
}

static void send_packets(int fd, const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	for (int i = 0; i < MAX_PACKETS && end - data >= 2; i++) {
		size_t n = (size_t)data[0] << 8 | data[1];

		data += 2;
		n = n < (size_t)(end - data) ? n : (size_t)(end - data);
		fuzz_send(fd, data, n, 0);
		data += n;
	}
	shutdown(fd, SHUT_WR); /* it still listens, as a daemon does that is about to end */
}

static void ask(struct screen *s)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = rpc_new_request(PROTO_OP_STATUS, NULL, 0);
	struct rpc_handler h = { .on_message = on_message, .arg = s };
	struct error err = ERROR_INIT;
	int code;

	FUZZ_CHECK(rpc_open_path(&rpc, "/nowhere", &err) == 0);
	close(daemon_end);
	code = rpc_call(rpc, request, &h, &err);
	FUZZ_CHECK(code >= 0 && code <= 255);
	FUZZ_CHECK(!code == !err.text[0]);
	fuzz_check_error(code ? -1 : 0, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = NULL;
	struct screen s = { 0 };
	size_t n;
	FILE *f = open_memstream(&text, &n);
	int pair[2];

	FUZZ_CHECK(f && conn_pair(pair) == 0);
	daemon_end = pair[1];
	send_packets(pair[0], data, size);
	FUZZ_CHECK(progress_new(&s.bar, f, PROGRESS_BAR) == 0);
	FUZZ_CHECK(progress_new(&s.lines, f, PROGRESS_LINES) == 0);
	progress_set_nodes(s.lines, true);
	ask(&s);
	close(pair[0]);
	print_list(&s.list, f);
	progress_free(s.bar);
	progress_free(s.lines);
	snapshot_list_deinit(&s.list);
	fclose(f);
	check_text(text, n);
	return 0;
}
