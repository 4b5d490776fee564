/*
 * file-size-limit: the user's limit on the size of files (RLIMIT_FSIZE, `ulimit -f`). It applies to
 * all file systems, also to memory. A write beyond it raises SIGXFSZ, which ends a process.
 */
#pragma once

struct error;
struct rlimit;

#define FILE_SIZE_LIMIT_HINT "raise the limit on the size of files (ulimit -f)"

/* Makes such writes fail with EFBIG instead, unless the parent has set the signal to be ignored.
 * Programs that this process executes have the default again. */
void file_size_limit_catch(void);

/* Raises the limit of this process as far as the user may. *oldp gets the limit from before. */
void file_size_limit_raise(struct rlimit *oldp);
void file_size_limit_restore(const struct rlimit *old);

/* Adds a hint to err if it is EFBIG and a limit is set. */
void file_size_limit_explain(struct error *err);
