/*
 * Included before everything in a build that counts lines (tools/check coverage): _exit() would
 * lose the counts of a child that does not exec.
 */
#pragma once

#include <unistd.h>

void __gcov_dump(void);

#define _exit(status)                                                                              \
	({                                                                                         \
		int _status = (status);                                                            \
		__gcov_dump();                                                                     \
		_exit(_status);                                                                    \
	})
