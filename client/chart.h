/*
 * chart: draws timelines as one SVG image that needs nothing else: no script, no font, no address.
 */
#pragma once

#include <stdio.h>

struct timeline_list;

/* At most so many rows, whatever the number of nodes. */
#define CHART_MAX_ROWS 64

/* 0 or -ENOMEM. The caller looks at ferror(f). */
int chart_write_svg(const struct timeline_list *l, FILE *f);

/* The same in a page of HTML. */
int chart_write_html(const struct timeline_list *l, FILE *f);
