/*
 * sqfs-xattr: extended attributes of a file in an image. Those of users (user.*, xattr(7)) are
 * shown. Others are for root, and have no effect in a mount.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqfs_image;
struct sqfs_inode;

/* The kernel's limits of a name and a value (linux/limits.h). */
#define SQFS_XATTR_MAX_NAME 255
#define SQFS_XATTR_MAX_SIZE 65536

/* Returns true if a file of this image may have a user attribute, or if this is not known. */
bool sqfs_xattr_is_used(struct sqfs_image *img);

/* Writes the names to buf, each NUL-terminated, as listxattr(2) does. Returns their size; -ERANGE:
 * they do not fit in size; -EIO: the image is damaged. */
int sqfs_xattr_list(struct sqfs_image *img, const struct sqfs_inode *inode, char *buf, size_t size);

/* Writes the value of a name to buf. Returns its size; -ENODATA: there is no such attribute;
 * -ERANGE: it does not fit in size; -EIO. */
int sqfs_xattr_get(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		   void *buf, size_t size);
