#include "client/report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"

#define PREFIX "stage-report "
#define MAX_NODE 255
#define MAX_PIECE (REPORT_MAX_LINE - (int)sizeof(PREFIX) - MAX_NODE - 4)

struct pending {
	char node[MAX_NODE + 1];
	char *data; /* the part that has been decoded so far */
	size_t size;
};

struct report_reader {
	struct pending *nodes;
	size_t n_nodes;
	size_t last; /* index of the last line's node, which is usually also that of the next
		      * line */
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
	for (size_t i = 0; i < r->n_nodes; i++)
		free(r->nodes[i].data);
	free(r->nodes);
	free(r);
}

static struct pending *get_pending(struct report_reader *r, const char *node, size_t size)
{
	struct pending *nodes;

	if (r->last < r->n_nodes && strlen(r->nodes[r->last].node) == size &&
	    !memcmp(r->nodes[r->last].node, node, size))
		return &r->nodes[r->last];
	for (size_t i = 0; i < r->n_nodes; i++)
		if (strlen(r->nodes[i].node) == size && !memcmp(r->nodes[i].node, node, size)) {
			r->last = i;
			return &r->nodes[i];
		}
	if (r->n_nodes == REPORT_MAX_NODES)
		return NULL;
	nodes = realloc(r->nodes, (r->n_nodes + 1) * sizeof(*nodes));
	if (!nodes)
		return NULL;
	r->nodes = nodes;
	r->last = r->n_nodes++;
	nodes[r->last] = (struct pending){ 0 };
	memcpy(nodes[r->last].node, node, size);
	return &nodes[r->last];
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
	struct pending *p;
	int ret;

	if (strncmp(line, PREFIX, strlen(PREFIX)))
		return -EPROTO;
	node = line + strlen(PREFIX);
	more = strchr(node, ' ');
	if (!more || more == node || more - node > MAX_NODE || (more[1] != '0' && more[1] != '1') ||
	    more[2] != ' ')
		return -EPROTO;
	p = get_pending(r, node, (size_t)(more - node));
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
