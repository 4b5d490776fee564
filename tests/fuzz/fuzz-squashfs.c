/*
 * An image: first its check, then everything that a server would read of it, even if the check has
 * failed.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "daemon/engines/image/sqfs-check.h"
#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-xattr.h"

#define MAX_DEPTH 20
#define MAX_ENTRIES 3000
#define READ_SIZE (128 << 10)

static unsigned n_seen;

static void read_file(struct sqfs_image *img, const struct sqfs_inode *inode)
{
	static const uint64_t places[] = { 0, 1, 131071, UINT64_C(1) << 40, UINT64_MAX - 4096 };
	struct volume_extent *x = calloc(sqfs_file_max_extents(img, READ_SIZE), sizeof(*x));
	static char buf[READ_SIZE]; /* on the heap it would be mapped anew each time */
	size_t n, size;

	FUZZ_CHECK(x);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (sqfs_file_read(img, inode, places[i], READ_SIZE, x, &n) < 0)
			continue;
		size = 0;
		for (size_t k = 0; k < n; k++)
			size += x[k].size;
		FUZZ_CHECK(size <= READ_SIZE);
		if (sqfs_file_load(img, x, n, buf) == 0)
			for (size_t k = 0; k < n; k++)
				if (x[k].size)
					buf[0] ^= (char)(x[k].data[0] ^ x[k].data[x[k].size - 1]);
		sqfs_file_release(img, x, n);
	}
	free(x);
}

static void read_xattrs(struct sqfs_image *img, const struct sqfs_inode *inode)
{
	static char names[SQFS_XATTR_MAX_SIZE], value[SQFS_XATTR_MAX_SIZE];
	int n = sqfs_xattr_list(img, inode, names, sizeof(names)), size;

	FUZZ_CHECK(n <= (int)sizeof(names));
	for (const char *s = names; n > 0 && s < names + n; s += strlen(s) + 1) {
		FUZZ_CHECK(strncmp(s, "user.", 5) == 0 && strlen(s) <= SQFS_XATTR_MAX_NAME);
		size = sqfs_xattr_get(img, inode, s, value, sizeof(value));
		FUZZ_CHECK(size <= (int)sizeof(value) && size != -ENODATA);
	}
}

static void look(struct sqfs_image *img, uint64_t ref, int depth)
{
	char target[SQFS_MAX_SYMLINK + 1];
	struct sqfs_dirent ent;
	struct sqfs_inode inode;
	struct sqfs_dir d;

	if (depth > MAX_DEPTH || n_seen++ > MAX_ENTRIES || sqfs_inode_load(img, ref, &inode) < 0)
		return;
	read_xattrs(img, &inode);
	if (inode.type == SQFS_TYPE_FILE)
		read_file(img, &inode);
	if (inode.type == SQFS_TYPE_SYMLINK && sqfs_inode_read_link(img, &inode, target) == 0)
		FUZZ_CHECK(strlen(target) <= SQFS_MAX_SYMLINK);
	if (inode.type != SQFS_TYPE_DIR || sqfs_dir_begin(&d, img, &inode, 0) < 0)
		return;
	while (n_seen < MAX_ENTRIES && sqfs_dir_read(&d, &ent) == 1) {
		FUZZ_CHECK(ent.name_size > 0 && strlen(ent.name) == ent.name_size);
		FUZZ_CHECK(!strchr(ent.name, '/') && strcmp(ent.name, ".") &&
			   strcmp(ent.name, ".."));
		look(img, ent.ref, depth + 1);
	}
	sqfs_dir_end(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	struct error err = ERROR_INIT;
	struct sqfs_counts counts;
	int r;

	r = sqfs_image_open(&img, fuzz_file(data, size), 1 << 20, &err);
	fuzz_check_error(r, &err);
	if (r < 0)
		return 0;
	r = sqfs_check_walk(img, &counts, &err);
	fuzz_check_error(r, &err);
	n_seen = 0;
	(void)sqfs_xattr_is_used(img);
	look(img, sqfs_inode_get_root(img), 0);
	return 0;
}
