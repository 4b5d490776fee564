/*
 * cause: the cause of a dataset's failure as one word of a short list, for metrics and for searches
 * in a log. The complete sentence is the reason.
 */
#pragma once

#include "common/util/error.h"
#include "daemon/stagingd/stage.h"

/* errnum: the error number that the worker reported; 0: none. */
enum stage_cause cause_find(enum stage_event ev, enum stage_exit code, int errnum);

/* Returns the word for a cause; "" for STAGE_CAUSE_NONE. */
const char *cause_to_string(enum stage_cause cause);
