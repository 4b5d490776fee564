/*
 * fd-close: what must not go along to a program. Of fd.h's functions the one that root needs.
 */
#pragma once

/* Closes every fd >= from: close_range(2), else /proc/self/fd, else up to the limit. */
void fd_close_from(int from);
