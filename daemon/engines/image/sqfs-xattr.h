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

/* A name and a value of the kernel's have no more bytes (linux/limits.h). */
#define SQFS_XATTR_MAX_NAME 255
#define SQFS_XATTR_MAX_SIZE 65536

/* May a file of this image have an attribute of users? True also where it is not known. */
bool sqfs_xattr_is_used(struct sqfs_image *img);

/* The names to buf, each NUL-terminated, as listxattr(2). Their size; -ERANGE: it is more than
 * size; -EIO: the image is damaged. */
int sqfs_xattr_list(struct sqfs_image *img, const struct sqfs_inode *inode, char *buf, size_t size);

/* The value of a name to buf. Its size; -ENODATA: there is none; -ERANGE: it is more than size;
 * -EIO. */
int sqfs_xattr_get(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		   void *buf, size_t size);
