/*
 * report-file: the data of `stagectl report` as JSON (docs/schema/report.schema.json), to be drawn
 * when the job is over.
 */
#pragma once

#include <stdio.h>

struct error;
struct snapshot_list;
struct timeline_list;

#define REPORT_FILE_FORMAT 1
#define REPORT_FILE_MAX_SIZE (256 << 20)
#define REPORT_FILE_MAX_DATASETS 65536 /* of all nodes */

/* 0. The caller looks at ferror(f). */
int report_file_write(const struct timeline_list *l, FILE *f);

/* Anybody may have written the file: an error names the place where it is not such a file. Members
 * that are not known are skipped. On failure the list may have a part. */
int report_file_read(struct snapshot_list *l, const char *path, struct error *err);
/* The same for what is read already. */
int report_file_parse(struct snapshot_list *l, const char *text, size_t size, struct error *err);
