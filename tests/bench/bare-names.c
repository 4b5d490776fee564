/*
 * All names and attributes are read before the time is measured, and are kept. Each request is
 * answered from memory, and the kernel keeps the answer, too. No file is read.
 */
#define FUSE_USE_VERSION 32
#include "bare.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NAMES (1 << 20)
#define A_DAY 86400.0

/* Number i is inode i + 1; those of a directory stand in a row. */
struct node {
	char *name;
	struct stat st;
	int first, n;
};

static struct {
	struct node *nodes;
	int n;
} tree;

static void add(int dirfd, const char *name)
{
	struct node *node = &tree.nodes[tree.n];

	if (tree.n == MAX_NAMES || !(node->name = strdup(name)))
		errx(1, "too many names");
	if (fstatat(dirfd, name, &node->st, AT_SYMLINK_NOFOLLOW) < 0)
		err(1, "look at %s", name);
	node->st.st_ino = (ino_t)++tree.n;
}

static void list(int number, int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *de;
	int child;

	if (!dir)
		err(1, "list %s", tree.nodes[number].name);
	tree.nodes[number].first = tree.n;
	while ((de = readdir(dir)))
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			add(fd, de->d_name);
	tree.nodes[number].n = tree.n - tree.nodes[number].first;
	for (int i = 0; i < tree.nodes[number].n; i++) {
		child = tree.nodes[number].first + i;
		if (!S_ISDIR(tree.nodes[child].st.st_mode))
			continue;
		list(child, openat(fd, tree.nodes[child].name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	}
	closedir(dir);
}

static void load(const char *path)
{
	tree.nodes = calloc(MAX_NAMES, sizeof(*tree.nodes));
	if (!tree.nodes)
		err(1, "memory");
	add(AT_FDCWD, path);
	list(0, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* ---- answers ---- */

static struct fuse_entry_param get_entry(const struct node *node)
{
	return (struct fuse_entry_param){
		.ino = node->st.st_ino,
		.attr = node->st,
		.attr_timeout = A_DAY,
		.entry_timeout = A_DAY,
	};
}

/* Without waiting for somebody to look at what he has listed. */
static void do_init(void *arg, struct fuse_conn_info *conn)
{
	(void)arg;
	conn->want &= ~(unsigned)FUSE_CAP_READDIRPLUS_AUTO;
	conn->want |= FUSE_CAP_READDIRPLUS;
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	const struct node *dir = &tree.nodes[parent - 1];
	struct fuse_entry_param e = { 0 };

	for (int i = dir->first; i < dir->first + dir->n && e.ino == 0; i++)
		if (!strcmp(tree.nodes[i].name, name))
			e = get_entry(&tree.nodes[i]);
	if (e.ino)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)fi;
	fuse_reply_attr(req, &tree.nodes[ino - 1].st, A_DAY);
}

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fi->cache_readdir = fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void give_names(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at, bool plus)
{
	static char buf[1 << 20];
	const struct node *dir = &tree.nodes[ino - 1], *node;
	struct fuse_entry_param e;
	size_t used = 0, n;

	size = size < sizeof(buf) ? size : sizeof(buf);
	for (int i = (int)at; i < dir->n; i++, used += n) {
		node = &tree.nodes[dir->first + i];
		e = get_entry(node);
		n = plus ? fuse_add_direntry_plus(req, buf + used, size - used, node->name, &e,
						  i + 1)
			 : fuse_add_direntry(req, buf + used, size - used, node->name, &node->st,
					     i + 1);
		if (n > size - used)
			break;
	}
	fuse_reply_buf(req, buf, used);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
		       struct fuse_file_info *fi)
{
	(void)fi;
	give_names(req, ino, size, at, false);
}

static void do_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
			   struct fuse_file_info *fi)
{
	(void)fi;
	give_names(req, ino, size, at, true);
}

int bare_names(int argc, char **argv)
{
	static const struct fuse_lowlevel_ops ops = {
		.init = do_init,
		.lookup = do_lookup,
		.getattr = do_getattr,
		.opendir = do_opendir,
		.readdir = do_readdir,
		.readdirplus = do_readdirplus,
	};
	char *options[] = { (char *)"probe", (char *)"-oro", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, options);
	struct fuse_session *session;
	int r;

	if (argc < 2)
		errx(2, "usage: probe names TREE POINT");
	load(argv[0]);
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_set_signal_handlers(session) != 0 ||
	    fuse_session_mount(session, argv[1]) != 0 || fuse_daemonize(0) != 0)
		errx(1, "mount %s", argv[1]);
	r = fuse_session_loop(session);
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return r != 0;
}
