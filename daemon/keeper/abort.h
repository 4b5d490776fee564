/*
 * abort: breaks a FUSE connection whose server hangs, which frees who waits for it.
 */
#pragma once

/* The tree of FUSE connections, for openat(2). An fd or -errno. */
int abort_open_control(void);

/* Aborts the connection mounted on m/<slot>; 0, -ENOENT if nothing is mounted there. */
int abort_slot(int dirfd, unsigned slot);
