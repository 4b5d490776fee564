#include "client/report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/name-table.h"
#include "common/util/cleanup.h"

#define PREFIX "stage-report "
#define MAX_NODE 255
#define MAX_PIECE (REPORT_MAX_LINE - (int)sizeof(PREFIX) - MAX_NODE - 4)

struct pending {
	char *node;
	char *data; /* the part that has been decoded so far */
	size_t size;
};

struct report_reader {
	struct name_table names;
	struct pending *nodes; /* in the order of names */
};

static bool is_plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '%';
}

int report_write(FILE *f, const char *node, const struct kv *kv)
{
	static const char hex[] = "0123456789abcdef";
	char piece[MAX_PIECE + 1];
	const unsigned char *data;
	const void *p;
	size_t size, n = 0;

	if (!node[0] || strlen(node) > MAX_NODE || strchr(node, ' ') || strchr(node, '\n') ||
	    kv_get_data(kv, &p, &size) != 0)
		return -EINVAL;
	data = p;
	for (size_t i = 0; i < size; i++) {
		if (is_plain(data[i])) {
			piece[n++] = (char)data[i];
		} else {
			piece[n++] = '%';
			piece[n++] = hex[data[i] >> 4];
			piece[n++] = hex[data[i] & 15];
		}
		if (n + 3 > MAX_PIECE && i + 1 < size) {
			fprintf(f, PREFIX "%s 1 %.*s\n", node, (int)n, piece);
			fflush(f); /* one write() per line, because other nodes write to the same
				    * pipe */
			n = 0;
		}
	}
	fprintf(f, PREFIX "%s 0 %.*s\n", node, (int)n, piece);
	return fflush(f) == 0 ? 0 : -EIO;
}

int report_reader_new(struct report_reader **rp)
{
	*rp = calloc(1, sizeof(**rp));
	return *rp ? 0 : -ENOMEM;
}

void report_reader_free(struct report_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->names.n; i++) {
		free(r->nodes[i].node);
		free(r->nodes[i].data);
	}
	free(r->nodes);
	name_table_deinit(&r->names);
	free(r);
}

static struct pending *get_pending(struct report_reader *r, const char *node)
{
	struct pending *nodes;
	size_t i = name_table_find(&r->names, node);

	if (i != NAME_TABLE_NONE)
		return &r->nodes[i];
	if (r->names.n == REPORT_MAX_NODES)
		return NULL;
	nodes = reallocarray(r->nodes, r->names.n + 1, sizeof(*nodes));
	if (!nodes)
		return NULL;
	r->nodes = nodes;
	nodes += r->names.n;
	*nodes = (struct pending){ .node = strdup(node) };
	if (nodes->node && name_table_add(&r->names, nodes->node) != NAME_TABLE_NONE)
		return nodes;
	free(nodes->node);
	return NULL;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Decodes piece and appends it. */
static int append_piece(struct pending *p, const char *piece)
{
	size_t size = strlen(piece);
	char *data;

	if (p->size + size > KV_MAX_SIZE)
		return -EPROTO;
	data = realloc(p->data, p->size + size + 1);
	if (!data)
		return -ENOMEM;
	p->data = data;
	for (; *piece; piece++) {
		if (*piece != '%') {
			data[p->size++] = *piece;
			continue;
		}
		if (hex_value(piece[1]) < 0 || hex_value(piece[2]) < 0)
			return -EPROTO;
		data[p->size++] = (char)(hex_value(piece[1]) << 4 | hex_value(piece[2]));
		piece += 2;
	}
	return 0;
}

int report_reader_feed(struct report_reader *r, const char *line, const char **nodep,
		       struct kv **kvp)
{
	const char *node, *more;
	char name[MAX_NODE + 1];
	struct pending *p;
	int ret;

	if (strncmp(line, PREFIX, strlen(PREFIX)))
		return -EPROTO;
	node = line + strlen(PREFIX);
	more = strchr(node, ' ');
	if (!more || more == node || more - node > MAX_NODE || (more[1] != '0' && more[1] != '1') ||
	    more[2] != ' ')
		return -EPROTO;
	snprintf(name, sizeof(name), "%.*s", (int)(more - node), node);
	p = get_pending(r, name);
	if (!p)
		return -ENOMEM;
	ret = append_piece(p, more + 3);
	if (ret < 0)
		p->size = 0;
	if (ret < 0 || more[1] == '1')
		return ret;
	ret = kv_new_from_data(kvp, p->data, p->size);
	p->size = 0;
	if (ret)
		return ret < 0 ? ret : -EPROTO;
	*nodep = p->node;
	return 1;
}
