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

/* Writes kv. Each line is one write() and is not buffered. Returns 0, -EIO, or -EINVAL if node has
 * a blank, is empty or is longer than 255 bytes. */
int report_write(FILE *f, const char *node, const struct kv *kv);

int report_reader_new(struct report_reader **rp);
void report_reader_free(struct report_reader *r);
DEFINE_FREEP(struct report_reader, report_reader_free)

/* Reads one line without its newline. Returns 1: a message is complete; the caller owns *kvp, and
 * *nodep is lent until the reader is freed; 0: the message is not complete yet; -EPROTO: not a line
 * of a report; -ENOMEM. */
int report_reader_feed(struct report_reader *r, const char *line, const char **nodep,
		       struct kv **kvp);
