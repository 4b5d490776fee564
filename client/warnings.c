#include "client/warnings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/name-table.h"
#include "client/output.h"
#include "client/snapshot.h"
#include "common/protocol/proto.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/strutil.h"

#define ASK_MS 10000
#define MAX_LINES 16

int warnings_add(struct warnings *w, struct kv **kvp)
{
	const char *name = kv_get_or_empty(*kvp, "name"), *text = kv_get_or_empty(*kvp, "text");
	struct warning *items;
	char *key;

	if (!name[0] || !text[0])
		return -EPROTO;
	items = reallocarray(w->items, w->n_items + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	w->items = items;
	key = strutil_printf("%s\n%s", name, text);
	if (!key)
		return -ENOMEM;
	items[w->n_items++] = (struct warning){
		.kv = *kvp,
		.node = kv_get_or_empty(*kvp, "node"),
		.name = name,
		.text = text,
		.key = key,
	};
	*kvp = NULL;
	return 0;
}

void warnings_deinit(struct warnings *w)
{
	for (size_t i = 0; i < w->n_items; i++) {
		kv_free(w->items[i].kv);
		free(w->items[i].key);
	}
	free(w->items);
	*w = (struct warnings){ 0 };
}

void warnings_ask(struct rpc *rpc, char *const *names, size_t n_names,
		  void (*on_message)(void *arg, const char *op, struct kv **kvp), void *arg)
{
	_cleanup_(kv_freep) struct kv *request = rpc_new_request(PROTO_OP_WARNINGS, names, n_names);
	struct rpc_handler h = {
		.on_message = on_message, .arg = arg, .timeout_ms = ASK_MS, .deaf = true
	};
	struct error ignored = ERROR_INIT;

	if (request)
		(void)rpc_call(rpc, request, &h, &ignored);
}

static bool is_zero_or_unset(const char *name)
{
	const char *value = getenv(name);

	return !value || !*value || !strcmp(value, "0");
}

bool warnings_are_told_here(void)
{
	return is_zero_or_unset("SLURM_LOCALID") && is_zero_or_unset("SLURM_NODEID");
}

/* Prints " on n1, n2 and 5 more", or nothing if all nodes that have the dataset have this
 * warning. */
static void print_nodes(FILE *f, const struct warnings *w, size_t first,
			const struct snapshot_list *list)
{
	_cleanup_(freep) const char **names = calloc(w->n_items, sizeof(*names));
	size_t n = 0, n_have = 0;

	if (!names)
		return;
	for (size_t i = first; i < w->n_items; i++)
		if (!strcmp(w->items[first].key, w->items[i].key))
			names[n++] = w->items[i].node;
	for (size_t i = 0; i < list->n_items; i++)
		n_have += !strcmp(list->items[i].name, w->items[first].name);
	if (n >= n_have)
		return;
	fputs(" on ", f);
	output_names(f, names, n);
}

static void print_one(FILE *f, const struct warnings *w, size_t first,
		      const struct snapshot_list *list, const char *prefix)
{
	_cleanup_(freep) char *line = NULL;
	size_t size;
	FILE *text = open_memstream(&line, &size);

	if (!text)
		return;
	fprintf(text, "%s: %s", prefix, w->items[first].name);
	print_nodes(text, w, first, list);
	fprintf(text, ": warning: %s", w->items[first].text);
	if (fclose(text) == 0)
		output_line(f, line);
}

void warnings_print(FILE *f, const struct warnings *w, const struct snapshot_list *list,
		    const char *prefix)
{
	_cleanup_(name_table_deinit) struct name_table keys = { 0 };

	for (size_t i = 0; i < w->n_items; i++) {
		const size_t n_before = keys.n;

		if (name_table_add(&keys, w->items[i].key) == n_before && n_before < MAX_LINES)
			print_one(f, w, i, list, prefix);
	}
	if (keys.n > MAX_LINES)
		fprintf(f, "%s: %zu more %s; see 'stagectl status --all-nodes'\n", prefix,
			keys.n - MAX_LINES, count_word(keys.n - MAX_LINES, "warning", "warnings"));
}
