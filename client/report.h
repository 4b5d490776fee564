/*
 * report: messages of the protocol as lines of text. With `--all-nodes`, the nodes send them
 * through the output of an srun step to the process that asked.
 *
 * srun passes lines of up to 1024 bytes whole and may mix the rest, so a message is cut into
 * pieces: "stage-report <node> <more 0|1> <piece>\n". Bytes that would end a line are %XX.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "common/protocol/kv.h"

#define REPORT_MAX_LINE 1000
#define REPORT_MAX_NODES 65536

struct report_reader;

/*
 * Writes kv, each line by a write() of its own and at once. 0 or -EIO, -EINVAL (node with a blank,
 * empty or longer than 255).
 */
int report_write(FILE *f, const char *node, const struct kv *kv);

int report_reader_new(struct report_reader **rp);
void report_reader_free(struct report_reader *r);
DEFINE_FREEP(struct report_reader, report_reader_free)

/*
 * Reads one line (without its newline). 1: a message is complete, *kvp is the caller's, *nodep
 * lent until the reader is freed; 0: not yet; -EPROTO: no line of ours; -ENOMEM.
 */
int report_reader_feed(struct report_reader *r, const char *line, const char **nodep,
		       struct kv **kvp);
