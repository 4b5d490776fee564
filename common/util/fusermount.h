/*
 * fusermount: unmounts with the setuid program fusermount3, for runs without a keeper.
 */
#pragma once

struct error;

/* Runs fusermount3 -u -z TARGET and waits for it. Returns 0 also if nothing is mounted there. Can
 * be passed to manifest_release(). */
int fusermount_unmount(const char *target, struct error *err);
