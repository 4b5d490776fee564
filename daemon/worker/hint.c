/*
 * If the hint for a failure depends on the operation, the code that finds the failure sets it
 * (error_set_hint()). The hints that are the same everywhere, such as for a file that may not be
 * read or a file system that fails, are in this file, by error code.
 */
#include "daemon/worker/hint.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/file-size-limit.h"
#include "common/util/path.h"
#include "common/util/suffix.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/web/web.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"

/* clang-format off */
static const struct {
	int errnum;
	const char *hint;
} hints[] = {
	{ ENOENT,       "check the name, and that this node sees that file system" },
	{ ENOTDIR,      "check the name: a part of it is a file" },
	{ EACCES,       "make it readable for you (ls -l shows the modes), or ask its owner" },
	{ EPERM,        "stagectl explain shows what the site allows" },
	{ ENODEV,       "write another DEST, such as :shm, or leave it out; the site can say why it is missing" },
	{ ESTALE,       "stage it when nobody writes to it" },
	{ EIO,          "read it once by hand (cat FILE >/dev/null); if that fails too, ask the site" },
	{ EBADMSG,      DAMAGE_HINT },
	{ ENODATA,      DAMAGE_HINT },
	{ E2BIG,        "stage less at once" },
	{ EFBIG,        "the file system holds no file of this size: write another DEST, or leave the file out (exclude=)" },
	{ ELOOP,        "fix the link, or name the file it should lead to" },
	{ ENAMETOOLONG, "use shorter names" },
	{ ENOMEM,       "ask for more --mem" },
	{ ENOSPC,       "ask for more --mem, or another place (:ssd)" },
	{ EDQUOT,       "stage less (subdir=, include=), or ask the site" },
	{ EMFILE,       "ask the site to raise the number of open files" },
	{ ENFILE,       "ask the site to raise the number of open files" },
	{ ETIMEDOUT,    "try again; if it stays, ask the site about that file system" },
	{ EOPNOTSUPP,   "ask the site" },
	{ EEXIST,       "remove it, or choose another NAME" },
	{ EINVAL,       "see stage-data(7)" },
};
/* clang-format on */

static bool names_source(const char *text, const char *path)
{
	struct error escaped = ERROR_INIT;

	error_set(&escaped, EINVAL, "%s", path);
	return strstr(text, escaped.text);
}

/* Returns the name if it is safe in a command, else NAME. Attack: others who may write to the
 * directory give a file a name with a semicolon, and the user copies the command. */
static const char *get_plain(const char *name, size_t *np)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789._-+=@%,:";

	if (*name != '-' && *np <= HINT_PART_NAME && strspn(name, plain) >= *np)
		return name;
	*np = strlen("NAME");
	return "NAME";
}

bool hint_part(const char *path, char *buf, size_t size)
{
	const char *name = path_base(path);
	char pattern[SUFFIX_PATTERN_SIZE];
	size_t n = strlen(name);

	if (n > 4 && !fnmatch(".[zZ][0-9][0-9]", name + n - 4, 0)) {
		n -= 4;
		name = get_plain(name, &n);
		snprintf(buf, size,
			 "join the parts: zip -s 0 %.*s.zip --out NEW.zip; unzip -t NEW.zip checks "
			 "it",
			 (int)n, name);
		return true;
	}
	n = suffix_find_part(name, pattern);
	if (n == 0)
		return false;
	name = get_plain(name, &n);
	snprintf(buf, size, "join the parts: cat %.*s%s >%.*s", (int)n, name, pattern, (int)n,
		 name);
	return true;
}

int hint_archive(const struct source *src, enum facts_format format, int r, struct error *err)
{
	struct error changed = ERROR_INIT;
	char fix[HINT_PART_SIZE], how[ERROR_MAX_SIZE];

	if ((r == -ENODATA || r == -EBADMSG || r == -EINVAL) &&
	    source_check_unchanged(src, &changed) == -ESTALE) {
		*err = changed;
		return -ESTALE;
	}
	if (r == -ENODATA && err && hint_part(src->path, fix, sizeof(fix))) {
		snprintf(how, sizeof(how), "%s", err->text);
		error_set(err, EILSEQ, "%.400s is cut off (%.300s)", src->path, how);
		return error_set_hint(err, -EILSEQ, "it is named like a part of a split file: %s",
				      fix);
	}
	r = damage_set_error(err, r, src->path, (uint64_t)src->st.st_size);
	if (r == -EINVAL || r == -EEXIST || r == -EISDIR || r == -ENOENT || r == -ENAMETOOLONG)
		error_set_hint(err, r, "make the archive again, by %s",
			       format == FORMAT_ZIP ? "zip -r" : "tar -C DIR -cf FILE .");
	return r;
}

void hint_error(const struct ctx *ctx, const struct source *src, struct error *err)
{
	char shown[DATASET_MAX_ITEM];
	const char *path = src && src->path ? src->path : NULL;

	if (err->code == -ECANCELED || err->code == -EPROTO)
		return;
	if (!path)
		path = web_show(ctx->ds->source, shown, sizeof(shown));
	if (!names_source(err->text, path))
		error_prefix(err, "%.700s", path);
	file_size_limit_explain(err);
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		if (hints[i].errnum == -err->code) {
			error_set_hint(err, err->code, "%s", hints[i].hint);
			return;
		}
	}
	error_set_hint(err, err->code, "try again; if it stays, ask the site");
}
