/*
 * cause: the cause of a dataset's failure as one word of a short list, for metrics and for searches
 * in a log. The complete sentence is the reason.
 */
#pragma once

#include "common/util/error.h"
#include "daemon/stagingd/stage.h"

/* errnum: what the worker said, 0: nothing. */
enum stage_cause cause_find(enum stage_event ev, enum stage_exit code, int errnum);

/* "": none. */
const char *cause_to_string(enum stage_cause cause);
