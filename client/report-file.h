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

/* Returns 0. The caller checks ferror(f). */
int report_file_write(const struct timeline_list *l, FILE *f);

/* Reads a file that anybody may have written. The error names the position at which the file is not
 * valid. Unknown members are skipped. On failure, the list may have a part of the datasets. */
int report_file_read(struct snapshot_list *l, const char *path, struct error *err);
/* Does the same for text that has been read already. */
int report_file_parse(struct snapshot_list *l, const char *text, size_t size, struct error *err);
