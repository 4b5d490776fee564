/*
 * list-file: the file that STAGE_DATA_LIST_<NAME> names. It has one staged path of a set on each
 * line.
 */
#pragma once

struct ctx;
struct error;
struct source;

/* Writes <rundir>/t/.stage/list.<name> with the members that are in the directory `made`. It is
 * written completely or not at all. The caller frees *pathp. */
int list_file_write(struct ctx *ctx, const struct source *src, const char *made, char **pathp,
		    struct error *err);
