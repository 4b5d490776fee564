/*
 * fusermount: unmounting what was mounted through the setuid helper fusermount3, where there is no
 * keeper.
 */
#pragma once

struct error;

/* fusermount3 -u -z TARGET; not mounted any more is 0. Waits for the helper. Fits
 * manifest_release(). */
int fusermount_unmount(const char *target, struct error *err);
