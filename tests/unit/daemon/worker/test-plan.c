#include "tests/unit/unit.h"

#include <errno.h>

#include "daemon/engines/archive/magic.h"
#include "daemon/worker/plan.h"

#define GIB (1ULL << 30)

enum { F_FILE, F_TAR, F_TARZST, F_IMAGE, F_ZIP, F_DIR, F_SET };

static const struct facts sources[] = {
	[F_FILE] = { .kind = SOURCE_FILE,
		     .bytes = 100 * GIB,
		     .n_files = 1,
		     .copy_bytes = 100 * GIB,
		     .copy_files = 1 },
	[F_TAR] = { .kind = SOURCE_FILE,
		    .format = FORMAT_TAR,
		    .promise = FORMAT_TAR,
		    .bytes = 100 * GIB,
		    .copy_bytes = 100 * GIB,
		    .copy_files = 1,
		    .extract_bytes = 100 * GIB,
		    .extract_exact = true },
	[F_TARZST] = { .kind = SOURCE_FILE,
		       .format = FORMAT_TAR,
		       .filter = FILTER_ZSTD,
		       .promise = FORMAT_TAR,
		       .bytes = 50 * GIB,
		       .copy_bytes = 50 * GIB,
		       .copy_files = 1,
		       .extract_bytes = 150 * GIB },
	[F_IMAGE] = { .kind = SOURCE_FILE,
		      .format = FORMAT_SQUASHFS,
		      .bytes = 100 * GIB,
		      .copy_bytes = 100 * GIB,
		      .copy_files = 1,
		      .extract_bytes = 300 * GIB },
	[F_ZIP] = { .kind = SOURCE_FILE,
		    .format = FORMAT_ZIP,
		    .bytes = 100 * GIB,
		    .copy_bytes = 100 * GIB,
		    .copy_files = 1,
		    .extract_bytes = 100 * GIB,
		    .extract_exact = true },
	[F_DIR] = { .kind = SOURCE_DIR,
		    .bytes = 100 * GIB,
		    .n_files = 1000,
		    .copy_bytes = 100 * GIB,
		    .copy_files = 1010 },
	[F_SET] = { .kind = SOURCE_SET,
		    .bytes = 100 * GIB,
		    .n_files = 1000,
		    .copy_bytes = 100 * GIB,
		    .copy_files = 1001 },
};

/* What is not said is: DEST auto, method auto, room everywhere, everything allowed. */
struct given {
	const char *word;
	int source;
	enum dataset_method method;
	const char *dest;
	const char *methods, *tiers;
	const char *path;      /* NULL: one that promises nothing */
	uint64_t memory, disk; /* GiB free; 0: plenty. 1: as good as nothing */
	bool no_disk, no_fuse, no_unpack, hydrate, select, nested, sha256, shard, subdir, keep,
		of_node;
	bool no_images; /* built without images and mounts */
	/* expected */
	int r;
	enum dataset_method got;
	const char *tier;
	enum source_kind kind;
	bool copy_first;
	bool hints;	  /* at method=extract */
	const char *says; /* part of line, or of the error */
};

#define COPY DATASET_METHOD_COPY
#define EXTRACT DATASET_METHOD_EXTRACT
#define MOUNT DATASET_METHOD_MOUNT
#define LINK DATASET_METHOD_LINK

/* clang-format off */
static const struct given cases[] = {
	/* what auto means */
	{ .word = "tar", .source = F_TAR, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "image", .source = F_IMAGE, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR, .says = "mount in place" },
	{ .word = "file", .source = F_FILE, .got = COPY, .tier = "shm", .kind = SOURCE_FILE, .says = "copy to memory, 100 GiB" },
	{ .word = "dir", .source = F_DIR, .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "set", .source = F_SET, .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "image with a DEST is copied first", .source = F_IMAGE, .dest = "shm", .got = MOUNT, .tier = "shm", .kind = SOURCE_DIR, .copy_first = true },
	{ .word = "image, hydrate: mounted at once", .source = F_IMAGE, .hydrate = true, .got = MOUNT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "tar, hydrate: nothing is mounted", .source = F_TAR, .hydrate = true, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR, .hints = true },
	{ .word = "dir, hydrate: nothing is mounted", .source = F_DIR, .hydrate = true, .got = COPY, .tier = "shm", .kind = SOURCE_DIR, .hints = true },
	{ .word = "image, hydrate, no room: mounted all the same", .source = F_IMAGE, .hydrate = true, .memory = 1, .disk = 1, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	/* a name that promises more than there is */
	{ .word = "noise named tar", .source = F_FILE, .path = "/p/x.tar", .r = -EINVAL, .got = COPY, .says = "/p/x.tar is a file and not the tar archive its name promises" },
	{ .word = "noise named image", .source = F_FILE, .path = "/p/x.SQSH", .r = -EINVAL, .got = COPY, .says = "squashfs image" },
	{ .word = "noise named tgz", .source = F_FILE, .path = "/p/x.tgz", .r = -EINVAL, .got = COPY, .says = "method=copy" },
	{ .word = "noise named tar, to be mounted", .source = F_FILE, .path = "/p/x.tar", .method = MOUNT, .r = -EINVAL, .got = MOUNT, .says = "make or copy it again" },
	{ .word = "a file, to be mounted", .source = F_FILE, .path = "/p/x.dat", .method = MOUNT, .r = -EINVAL, .got = MOUNT, .says = "leave method= out" },
	{ .word = "meant as it is", .source = F_FILE, .path = "/p/x.tar", .method = COPY, .got = COPY, .tier = "shm", .kind = SOURCE_FILE },
	{ .word = "a directory may have any name", .source = F_DIR, .path = "/p/x.tar", .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "a tar may have another archive's name", .source = F_TAR, .path = "/p/x.zip", .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	/* a name that promises less */
	{ .word = "a tar by another name", .source = F_TAR, .path = "/p/x.nemo", .got = COPY, .tier = "shm", .kind = SOURCE_FILE, .hints = true },
	{ .word = "a zip by another name", .source = F_ZIP, .path = "/p/x.pt", .got = COPY, .tier = "shm", .kind = SOURCE_FILE, .hints = true },
	{ .word = "a checkpoint", .source = F_ZIP, .path = "/p/x.pth.tar", .got = COPY, .tier = "shm", .kind = SOURCE_FILE, .hints = true },
	{ .word = "a zip by its name", .source = F_ZIP, .path = "/p/x.zip", .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "a zip of which a part is wanted", .source = F_ZIP, .path = "/p/x.pt", .subdir = true, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "a zip that is wanted as it is", .source = F_ZIP, .path = "/p/x.pt", .method = COPY, .got = COPY, .tier = "shm", .kind = SOURCE_FILE },
	{ .word = "a zip whose place is asked for", .source = F_ZIP, .path = "/p/x.pt", .dest = "source", .got = LINK, .tier = "source", .kind = SOURCE_FILE },
	/* fallbacks never change the shape */
	{ .word = "file to disk", .source = F_FILE, .memory = 62, .got = COPY, .tier = "ssd", .kind = SOURCE_FILE },
	{ .word = "file to a link", .source = F_FILE, .memory = 62, .no_disk = true, .got = LINK, .tier = "source", .kind = SOURCE_FILE },
	{ .word = "dir to a link", .source = F_DIR, .memory = 1, .disk = 1, .got = LINK, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "set to links", .source = F_SET, .memory = 1, .disk = 1, .got = LINK, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "tar that fits nowhere is mounted", .source = F_TAR, .memory = 62, .no_disk = true, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR, .hints = true, .says = "mount in place" },
	{ .word = "a part of it may be small", .source = F_TAR, .memory = 62, .no_disk = true, .subdir = true, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "tar that is to be extracted", .source = F_TAR, .method = EXTRACT, .memory = 62, .no_disk = true, .r = -ENOSPC, .got = EXTRACT },
	{ .word = "what a mount can't select", .source = F_TAR, .memory = 62, .no_disk = true, .select = true, .disk = 1, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "nested: tar that fits nowhere is mounted", .source = F_TAR, .nested = true, .memory = 62, .no_disk = true, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR, .hints = true, .says = "mount in place" },
	{ .word = "nested: zip that fits nowhere", .source = F_ZIP, .path = "/p/x.zip", .nested = true, .memory = 62, .no_disk = true, .r = -ENOSPC, .got = EXTRACT },
	{ .word = "zip that fits nowhere is mounted", .source = F_ZIP, .path = "/p/x.zip", .memory = 62, .no_disk = true, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR, .hints = true, .says = "mount in place" },
	{ .word = "zip is never a link", .source = F_ZIP, .path = "/p/x.zip", .method = EXTRACT, .memory = 62, .no_disk = true, .r = -ENOSPC, .got = EXTRACT, .says = "needs 100 GiB, the job has 62 GiB left of --mem; try more --mem or a squashfs image" },
	{ .word = "tar without fuse is never a link", .source = F_TAR, .no_fuse = true, .memory = 62, .no_disk = true, .r = -ENOSPC, .got = EXTRACT },
	{ .word = "tar to disk", .source = F_TAR, .memory = 62, .got = EXTRACT, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "what was selected is no link", .source = F_DIR, .memory = 1, .disk = 1, .select = true, .r = -ENOSPC, .got = COPY },
	{ .word = "a share of a tree is no link", .source = F_DIR, .memory = 1, .disk = 1, .shard = true, .r = -ENOSPC, .got = COPY },
	{ .word = "a share of a set may be", .source = F_SET, .memory = 1, .disk = 1, .shard = true, .got = LINK, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "what is verified is no link", .source = F_FILE, .memory = 1, .disk = 1, .sha256 = true, .r = -ENOSPC, .got = COPY },
	{ .word = "method=copy is a copy", .source = F_DIR, .method = COPY, .memory = 1, .disk = 1, .r = -ENOSPC, .got = COPY },
	{ .word = "image without fuse is unpacked", .source = F_IMAGE, .no_fuse = true, .disk = 1000, .memory = 1000, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "image, built without them", .source = F_IMAGE, .no_images = true, .r = -EOPNOTSUPP, .got = MOUNT, .says = "built without them" },
	{ .word = "unpack an image, built without them", .source = F_IMAGE, .method = EXTRACT, .no_images = true, .r = -EOPNOTSUPP, .got = EXTRACT, .says = "method=copy" },
	{ .word = "copy an image, built without them", .source = F_IMAGE, .method = COPY, .no_images = true, .got = COPY, .tier = "shm", .kind = SOURCE_FILE },
	{ .word = "mount a tar, built without mounts", .source = F_TAR, .method = MOUNT, .no_images = true, .r = -EOPNOTSUPP, .got = MOUNT, .says = "was built without mounts; method=extract" },
	{ .word = "image without anything", .source = F_IMAGE, .no_fuse = true, .no_unpack = true, .r = -EOPNOTSUPP, .got = MOUNT },
	/* DEST */
	{ .word = "DEST shm does not fit", .source = F_FILE, .dest = "shm", .memory = 62, .r = -ENOSPC, .got = COPY, .says = "try more --mem or :ssd" },
	{ .word = "tar to shm does not fit", .source = F_TAR, .dest = "shm", .memory = 62, .r = -ENOSPC, .got = EXTRACT, .says = "; try more --mem, :ssd or a squashfs image" },
	{ .word = "tar to shm, no disk in the rule, no mounts", .source = F_TAR, .dest = "shm", .tiers = "shm", .no_fuse = true, .memory = 62, .r = -ENOSPC, .got = EXTRACT, .says = "; try more --mem" },
	{ .word = "it is the node that is full", .source = F_TAR, .no_disk = true, .no_fuse = true, .memory = 62, .of_node = true, .r = -ENOSPC, .got = EXTRACT, .says = "; try a node with more memory" },
	{ .word = "the node is full, DEST shm", .source = F_FILE, .dest = "shm", .memory = 62, .of_node = true, .r = -ENOSPC, .got = COPY, .says = "; try :ssd" },
	{ .word = "image in a DEST that is full", .source = F_IMAGE, .dest = "ssd", .disk = 62, .r = -ENOSPC, .got = MOUNT, .says = "; try another DEST" },
	{ .word = "DEST ssd", .source = F_DIR, .dest = "ssd", .got = COPY, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "DEST ssd that is not here", .source = F_DIR, .dest = "ssd", .no_disk = true, .r = -EPERM, .got = COPY },
	{ .word = "DEST scratch", .source = F_DIR, .dest = "scratch", .got = COPY, .tier = "scratch", .kind = SOURCE_DIR },
	{ .word = "shared is never auto", .source = F_ZIP, .path = "/p/x.zip", .no_fuse = true, .memory = 1, .disk = 1, .r = -ENOSPC, .got = EXTRACT },
	{ .word = "DEST source: file", .source = F_FILE, .dest = "source", .got = LINK, .tier = "source", .kind = SOURCE_FILE },
	{ .word = "DEST source: image", .source = F_IMAGE, .dest = "source", .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "DEST source and a copy", .source = F_FILE, .dest = "source", .method = COPY, .r = -EINVAL, .got = COPY },
	{ .word = "DEST a path", .source = F_FILE, .dest = "/local/x", .got = COPY, .tier = "/local/x", .kind = SOURCE_FILE },
	/* methods */
	{ .word = "extract a file", .source = F_FILE, .method = EXTRACT, .r = -EINVAL, .got = EXTRACT, .says = "it is a file" },
	{ .word = "extract a dir", .source = F_DIR, .method = EXTRACT, .r = -EINVAL, .got = EXTRACT, .says = "a directory" },
	{ .word = "mount a plain tar", .source = F_TAR, .method = MOUNT, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "mount a tar that is copied first", .source = F_TAR, .method = MOUNT, .hydrate = true, .got = MOUNT, .tier = "shm", .kind = SOURCE_DIR, .copy_first = true },
	{ .word = "nested: mount a plain tar", .source = F_TAR, .method = MOUNT, .nested = true, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "nested: mount a zip", .source = F_ZIP, .method = MOUNT, .nested = true, .r = -EINVAL, .got = MOUNT, .says = "nested is for archives that are extracted, and for plain tars" },
	{ .word = "nested: unpack an image", .source = F_IMAGE, .method = EXTRACT, .nested = true, .r = -EINVAL, .got = EXTRACT, .says = "does not open those in an image" }, /* seen failing: it had no effect */
	{ .word = "mount a zip", .source = F_ZIP, .method = MOUNT, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "mount a compressed tar", .source = F_TARZST, .method = MOUNT, .r = -EINVAL, .got = MOUNT, .says = "a tar in zstd" },
	{ .word = "copy a tar: a file", .source = F_TAR, .method = COPY, .got = COPY, .tier = "shm", .kind = SOURCE_FILE },
	{ .word = "copy an image: a file", .source = F_IMAGE, .method = COPY, .got = COPY, .tier = "shm", .kind = SOURCE_FILE },
	{ .word = "link", .source = F_DIR, .method = LINK, .got = LINK, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "subdir= of a mounted image", .source = F_IMAGE, .subdir = true, .got = MOUNT, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "subdir= of a file", .source = F_FILE, .subdir = true, .r = -EINVAL, .got = COPY, .says = "; leave it out" },
	{ .word = "subdir= of a copied image", .source = F_IMAGE, .method = COPY, .subdir = true, .r = -EINVAL, .got = COPY },
	{ .word = "select from a mount", .source = F_IMAGE, .select = true, .r = -EINVAL, .got = MOUNT, .says = "; method=extract selects" },
	{ .word = "select a file", .source = F_FILE, .select = true, .r = -EINVAL, .got = COPY },
	{ .word = "verify a dir", .source = F_DIR, .sha256 = true, .r = -EINVAL, .got = COPY },
	/* the site's rule */
	{ .word = "rule without extract", .source = F_TAR, .methods = "copy,link", .r = -EPERM, .got = EXTRACT, .says = "rule r" },
	{ .word = "rule without copy", .source = F_DIR, .methods = "mount,link", .got = LINK, .tier = "source", .kind = SOURCE_DIR },
	{ .word = "rule without link: no fallback", .source = F_DIR, .methods = "copy", .memory = 1, .disk = 1, .r = -ENOSPC, .got = COPY },
	{ .word = "rule without mount: unpacked", .source = F_IMAGE, .methods = "extract", .memory = 400, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "rule prefers disk", .source = F_DIR, .tiers = "ssd,shm", .got = COPY, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "rule with a tier that is called almost like the disk", .source = F_DIR, .tiers = "ssd2,shm,ssd", .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "rule with a tier that is called almost like the memory", .source = F_DIR, .tiers = "shm2,ssd,shm", .got = COPY, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "what is kept goes to disk", .source = F_DIR, .keep = true, .got = COPY, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "what would be kept and does not fit there", .source = F_DIR, .keep = true, .disk = 1, .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "what would be kept where only memory may be used", .source = F_DIR, .keep = true, .tiers = "shm", .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "a DEST counts more than keep", .source = F_DIR, .keep = true, .dest = "shm", .got = COPY, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "rule of disk alone", .source = F_DIR, .tiers = "ssd", .got = COPY, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "rule of memory alone", .source = F_ZIP, .path = "/p/x.zip", .no_fuse = true, .tiers = "shm", .memory = 1, .r = -ENOSPC, .got = EXTRACT },
	/* guesses */
	{ .word = "a guess that fits", .source = F_TARZST, .memory = 200, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR, .says = "about 150 GiB" },
	{ .word = "a guess that fits the disk", .source = F_TARZST, .memory = 100, .disk = 200, .got = EXTRACT, .tier = "ssd", .kind = SOURCE_DIR },
	{ .word = "a guess that fits nowhere is tried", .source = F_TARZST, .memory = 100, .disk = 1, .got = EXTRACT, .tier = "shm", .kind = SOURCE_DIR },
	{ .word = "smaller than it is packed: no", .source = F_TARZST, .memory = 40, .disk = 1, .r = -ENOSPC, .got = EXTRACT },
};
/* clang-format on */

static void set_space(struct plan_space *s, const char *tier, bool present, uint64_t gib)
{
	*s = (struct plan_space){ .tier = tier, .present = present, .known = true };
	s->free_bytes = (gib ? gib : 10000) * GIB;
	s->free_files = UINT64_MAX;
	snprintf(s->limit, sizeof(s->limit), "%s %llu GiB left%s",
		 !strcmp(tier, "shm") ? "the job has" : "the disk has",
		 (unsigned long long)(gib ? gib : 10000), !strcmp(tier, "shm") ? " of --mem" : "");
}

static bool rule_has(const char *list, const char *word)
{
	return !list || strstr(list, word);
}

static void set_up(const struct given *g, struct dataset *ds, struct policy *policy,
		   struct facts *facts, struct plan_input *in)
{
	*ds = (struct dataset){
		.name = "x",
		.source = (char *)(g->path ? g->path : "/p/x"),
		.dest = (char *)(g->dest ? g->dest : "auto"),
		.method = g->method,
		.hydrate = g->hydrate,
		.n_include = g->select,
		.nested = g->nested,
		.subdir = (char *)(g->subdir ? "train" : NULL),
		.verify = g->sha256 ? DATASET_VERIFY_SHA256 : DATASET_VERIFY_SIZE,
		.shard = g->shard ? DATASET_SHARD_NODE : DATASET_SHARD_ALL,
	};
	*policy = (struct policy){
		.rule = "r",
		.methods = g->methods ? g->methods : "*",
		.tiers = g->tiers ? g->tiers : "",
		.fuse = !g->no_fuse,
		.ssd = !g->no_disk,
		.memory.job_limit = 128 * GIB,
		.keep_ms = g->keep ? 60000 : 0,
	};
	*facts = sources[g->source];
	if (g->path)
		facts->promise = magic_get_promise(g->path);
	*in = (struct plan_input){ .ds = ds, .facts = facts, .policy = policy };
	in->able.can_copy = in->able.can_link = true;
	in->able.has_images = !g->no_images;
	in->able.can_mount = !g->no_images &&
			     (g->source == F_IMAGE || g->source == F_TAR || g->source == F_ZIP);
	in->able.can_extract = facts_is_archive(in->facts) ||
			       (g->source == F_IMAGE && !g->no_unpack && !g->no_images);
	set_space(&in->spaces[0], "shm", rule_has(g->tiers, "shm"), g->memory);
	in->spaces[0].of_node = g->of_node;
	set_space(&in->spaces[1], "ssd", !g->no_disk && rule_has(g->tiers, "ssd"), g->disk);
	set_space(&in->spaces[2], "scratch", rule_has(g->tiers, "scratch"), 0);
	set_space(&in->spaces[3], "/local/x", true, 0);
	in->n_spaces = 4;
}

static void check_case(const struct given *g)
{
	struct error err = ERROR_INIT;
	struct plan_input in;
	struct dataset ds;
	struct facts facts;
	struct policy policy;
	struct plan plan;
	int r;

	set_up(g, &ds, &policy, &facts, &in);
	r = plan_make(&plan, &in, &err);
	if (r != g->r || plan.method != g->got)
		fail_msg("%s: %d (%s), %s", g->word, r, err.text,
			 dataset_method_to_string(plan.method));
	if (r == 0 && (strcmp(plan.tier, g->tier) || plan.kind != g->kind ||
		       plan.copy_first != g->copy_first))
		fail_msg("%s: tier %s kind %d copy first %d", g->word, plan.tier, plan.kind,
			 plan.copy_first);
	if (g->says && !strstr(r < 0 ? err.text : plan.line, g->says))
		fail_msg("%s: says '%s'", g->word, r < 0 ? err.text : plan.line);
	if (g->hydrate && !strstr(plan.why, "hydrate=copy has no effect") != (g->got == MOUNT))
		fail_msg("%s: '%s'", g->word, plan.why);
	if (!plan.hint[0] == g->hints ||
	    (g->hints && !g->hydrate && !strstr(plan.why, "method=extract")))
		fail_msg("%s: hints '%s'", g->word, plan.hint);
	if (!plan.why[0])
		fail_msg("%s: no reasons", g->word);
	if (r == 0 && !strcmp(plan.tier, "source") && plan.need_bytes)
		fail_msg("%s: reserves for what is not moved", g->word);
}

static void test_cases(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
}

/* Whatever is free: a dataset that is planned has the shape that was promised with room everywhere.
 */
static void test_space_never_changes_the_shape(void **state)
{
	static const uint64_t sizes[] = { 1, 62, 120, 400, 0 };
	struct plan plan, first;
	struct plan_input in;
	struct dataset ds;
	struct facts facts;
	struct policy policy;

	for (int s = F_FILE; s <= F_SET; s++) {
		struct given g = { .source = s };

		set_up(&g, &ds, &policy, &facts, &in);
		assert_int_equal(plan_make(&first, &in, NULL), 0);
		for (size_t i = 0; i < 2 * ARRAY_SIZE(sizes) * ARRAY_SIZE(sizes); i++) {
			g.memory = sizes[i / 2 % ARRAY_SIZE(sizes)];
			g.disk = sizes[i / 2 / ARRAY_SIZE(sizes)];
			g.no_disk = i % 2;
			set_up(&g, &ds, &policy, &facts, &in);
			if (plan_make(&plan, &in, NULL) < 0)
				continue;
			assert_int_equal(plan.kind, first.kind);
			assert_string_not_equal(plan.tier, "scratch");
			if (strcmp(plan.tier, "source"))
				assert_true(plan_get_space(&in, plan.tier)->free_bytes >=
					    plan.need_bytes);
		}
	}
}

static void test_limits_of_the_site(void **state)
{
	struct given g = { .source = F_DIR };
	struct error err = ERROR_INIT;
	struct plan_input in;
	struct dataset ds;
	struct facts facts;
	struct policy policy;
	struct plan plan;

	set_up(&g, &ds, &policy, &facts, &in);
	policy.max_bytes = 99 * GIB;
	assert_int_equal(plan_make(&plan, &in, &err), -EDQUOT);
	assert_int_equal(error_to_exit(&err), STAGE_EXIT_NO_SPACE);
	policy.max_bytes = 100 * GIB;
	policy.max_files = 1009;
	assert_int_equal(plan_make(&plan, &in, &err), -EDQUOT);
	policy.max_files = 1010;
	assert_int_equal(plan_make(&plan, &in, &err), 0);
	in.spaces[0].free_files = 100; /* inodes count, too */
	assert_int_equal(plan_make(&plan, &in, &err), 0);
	assert_string_equal(plan.tier, "ssd");
}

/* Was wrong: links and mounts in place were refused by limits of the space that data takes. */
static void test_what_takes_no_space_has_no_limit(void **state)
{
	static const struct {
		struct given given;
		int expect;
	} rows[] = {
		{ { .source = F_IMAGE }, 0 },
		{ { .source = F_IMAGE, .dest = "source" }, 0 },
		{ { .source = F_TAR, .method = MOUNT }, 0 },
		{ { .source = F_DIR, .method = LINK }, 0 },
		{ { .source = F_DIR, .dest = "source" }, 0 },
		{ { .source = F_IMAGE, .dest = "shm" }, -EDQUOT },
		{ { .source = F_DIR }, -EDQUOT },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct error err = ERROR_INIT;
		struct plan_input in;
		struct dataset ds;
		struct facts facts;
		struct policy policy;
		struct plan plan;
		int r;

		set_up(&rows[i / 2].given, &ds, &policy, &facts, &in);
		policy.max_bytes = i % 2 ? 0 : 1;
		policy.max_files = i % 2;
		facts.copy_files = facts.extract_files = 2;
		r = plan_make(&plan, &in, &err);
		if (r != rows[i / 2].expect)
			fail_msg("%zu: %d (%s)", i, r, err.text);
		if (r == 0)
			assert_int_equal(plan.need_bytes + plan.need_files, 0);
	}
}

/* It was written to memory, then to disk, and then it was too large. */
static void test_what_an_archive_takes_at_least_is_limited(void **state)
{
	static const struct {
		const char *word;
		uint64_t packed, estimate, max;
		bool select;
		int r;
	} guesses[] = {
		{ "a tar of large files", 38, 38, 20, false, -EDQUOT },
		{ "compressed", 38, 120, 20, false, -EDQUOT },
		{ "compressed, and the limit may hold", 38, 120, 40, false, 0 },
		{ "a part of it may be small", 38, 38, 20, true, 0 },
		{ "the rest may be headers", 38, 38, 34, false, 0 },
		{ "headers and nothing else", 38, 1, 20, false, 0 },
		{ "no limit", 38, 38, 0, false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(guesses); i++) {
		struct given g = { .source = F_TAR, .select = guesses[i].select };
		struct facts facts;
		struct error err = ERROR_INIT;
		struct policy policy;
		struct plan_input in;
		struct dataset ds;
		struct plan plan;

		set_up(&g, &ds, &policy, &facts, &in);
		facts.bytes = guesses[i].packed * GIB;
		facts.extract_bytes = guesses[i].estimate * GIB;
		facts.extract_exact = false;
		policy.max_bytes = guesses[i].max * GIB;
		if (plan_make(&plan, &in, &err) != guesses[i].r)
			fail_msg("%s: %s", guesses[i].word, err.text);
		if (guesses[i].r < 0 && !strstr(err.text, "takes at least "))
			fail_msg("%s: says %s", guesses[i].word, err.text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_space_never_changes_the_shape),
		cmocka_unit_test(test_limits_of_the_site),
		cmocka_unit_test(test_what_takes_no_space_has_no_limit),
		cmocka_unit_test(test_what_an_archive_takes_at_least_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
