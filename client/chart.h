/*
 * chart: draws timelines as one SVG image that needs nothing else: no script, no font, no address.
 */
#pragma once

#include <stdio.h>

struct timeline_list;

/* The chart has at most this number of rows, whatever the number of nodes. */
#define CHART_MAX_ROWS 64

/* Returns 0 or -ENOMEM. The caller checks ferror(f). */
int chart_write_svg(const struct timeline_list *l, FILE *f);

/* Writes the same chart in an HTML page. */
int chart_write_html(const struct timeline_list *l, FILE *f);
