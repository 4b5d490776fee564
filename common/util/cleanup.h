/*
 * cleanup: variables whose declaration names the destructor of what they own.
 *
 * `_cleanup_(x_freep) struct x *x = NULL;` calls x_freep(&x) when x goes out of
 * scope; steal_ptr() and steal_fd() make the transfer of ownership visible.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <dirent.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

/* Defines x_freep() for a destructor x_free(). x_free() is not called for NULL. */
#define DEFINE_FREEP(type, func)                                                                   \
	static inline void func##p(type **p)                                                       \
	{                                                                                          \
		if (*p)                                                                            \
			func(*p);                                                                  \
	}

#define steal_ptr(p)                                                                               \
	({                                                                                         \
		__typeof__(p) _stolen = (p);                                                       \
		(p) = NULL;                                                                        \
		_stolen;                                                                           \
	})

#define steal_fd(fdp)                                                                              \
	({                                                                                         \
		int _stolen = *(fdp);                                                              \
		*(fdp) = -1;                                                                       \
		_stolen;                                                                           \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}

/* Closes *fd if it is open. Keeps errno. */
void fd_closep(int *fd);

static inline void file_closep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void dir_closep(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
