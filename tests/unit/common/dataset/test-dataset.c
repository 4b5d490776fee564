#include "tests/unit/unit.h"

#include <errno.h>

#include "common/dataset/dataset.h"
#include "common/util/parse.h"

#define HEX32 "0123456789abcdef0123456789ABCDEF"
#define HEX HEX32 HEX32

/* The variables of these tests. */
static const char *get_env(void *arg, const char *name)
{
	static const struct {
		const char *name, *value;
	} vars[] = {
		{ "SCRATCH", "/p/scratch/proj" },
		{ "EMPTY", "" },
		{ "REL", "sub/dir" },
		{ "COMMA", "/p/a,b" },
		{ "BLANK", "/p/a b" },
		{ "STAR", "/p/*.tar" },
		{ "DOLLAR", "$SCRATCH" },
		{ "BRACE", "/p/a{b" },
		{ "CONTROL", "/p/\x1b[31m" },
		{ "TIER", "ssd" },
		{ "UP", "../.." },
		{ "_x1", "/p/x1" },
		{ "COLON", "/p/a:b+c%2C" },
		{ "CLIMB", "/p/{a,../b}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(vars); i++)
		if (!strcmp(vars[i].name, name))
			return vars[i].value;
	return NULL;
}

/* The names of a list, separated by blanks. */
static void join_names(const struct dataset_list *list, char *buf, size_t size)
{
	buf[0] = '\0';
	for (size_t i = 0; i < list->n_items; i++) {
		strncat(buf, list->items[i].name, size - strlen(buf) - 1);
		if (i + 1 < list->n_items)
			strncat(buf, " ", size - strlen(buf) - 1);
	}
}

/* clang-format off */
static const struct {
	const char *value, *text, *names; /* text: canonical; NULL: as value */
} accepted[] = {
	{ "/p/imagenet", NULL, "imagenet" },
	{ "/p/imagenet/", NULL, "imagenet" },                        /* a trailing slash means nothing */
	{ "/p/imagenet:", "/p/imagenet", "imagenet" },               /* empty fields */
	{ "/p/imagenet::", "/p/imagenet", "imagenet" },
	{ "/p/imagenet:auto", "/p/imagenet", "imagenet" },
	{ "/p/a,/p/b", NULL, "a b" },
	{ "x=/p/a", NULL, "x" },
	{ "A_9=/p/a:shm", NULL, "A_9" },
	{ "a23456789012345678901234567890Z2=/p/a", NULL, "a23456789012345678901234567890Z2" },
	{ "none", NULL, "" },                                        /* cancels */
	{ "./none", NULL, "none" },
	{ "none.tar", NULL, "none" },
	{ "x=none", NULL, "x" },

	/* addresses: whose colon is it */
	{ "https://h:8443/x.tar.zst:shm", NULL, "x" },
	{ "https://[::1]:80/a.tar", NULL, "a" },
	{ "http://h/a%3Ab%2Cc.tar:ssd", NULL, "a_3Ab_2Cc" },          /* never decoded */
	{ "https://h/a.tar?sig=a%2Bb&t=1%3A2", NULL, "a" },
	{ "https://h/d/?x=/y/z.tar", NULL, "d" },                    /* the query has slashes */
	{ "HTTPS://Host/X.tar", "https://Host/X.tar", "X" },
	{ "https://h/", NULL, "data" },
	{ "https://h/s-{0..3}.tar", NULL, "s" },
	{ "https://h/{a,b}/f.tar", NULL, "f" },
	{ "https://h/a*b.tar", NULL, "a_b" },                        /* only {} is a pattern there */
	{ "s3://b/pre/", NULL, "pre" },
	{ "s3://b/k", NULL, "k" },
	{ "s3://b/dir/a%3Ab.tar:shm", NULL, "a_b" },
	{ "s3://my.bucket-1/x?y", NULL, "x_y" },                     /* no query in a key */
	{ "s3://b/pre/train-*.tar,s3://b/*/x.tar,s3://b/*", NULL, "train x data" },

	/* = */
	{ "year=2020/p.parquet", NULL, "year" },
	{ "./year=2020/p.parquet", NULL, "p" },
	{ "/p/a=b.tar", NULL, "a_b" },
	{ "https://h/x?a=b", NULL, "x" },
	{ "2012.tar::method=copy", NULL, "d_2012" },
	{ ".a=b", NULL, "data" },
	{ "$X=1", NULL, "d_X_1" },

	/* patterns and lists */
	{ "/p/s-{000..146}.tar", NULL, "s" },
	{ "/p/{train,val}.tar:ssd,/p/x", NULL, "data x" },
	{ "/p/*.{jpg,png}", NULL, "data" },
	{ "/p/*.{jpg,png}::include=*.{a,b}", NULL, "data" },
	{ "/p/x::include=*.a+include=*.b+exclude=c*", NULL, "x" },
	{ "/p/a?b.tar", NULL, "a" },
	{ "/p/a[12].tar", NULL, "a" },
	{ "@@l.txt:shm:shard=node", NULL, "l" },
	{ "@@./year=2020.txt", NULL, "year_2020" },
	{ "@imagenet", NULL, "imagenet" },
	{ "@imagenet/train/:shm", NULL, "train" },
	{ "my=@image-net.v2", NULL, "my" },

	/* decoding */
	{ "/p/a%2Cb%3Ac%2Bd%25e", NULL, "a_b_c_d_e" },
	{ "/p/a%2cb", "/p/a%2Cb", "a_b" },
	{ "/p/a%20b", "/p/a%2520b", "a_20b" },                       /* %20 is two digits and a % */
	{ "/p/%252C", NULL, "d_2C" },                               /* decoded once */
	{ "%2Bx", NULL, "d_x" },
	{ "/p/a+b", "/p/a%2Bb", "a_b" },
	{ "/p/x::include=a%2Bb%2Cc", NULL, "x" },
	{ "/p/x:/local/a%3Ab", NULL, "x" },

	/* bytes of a pattern that stand for themselves */
	{ "/p/run%5B1%5D.tar", NULL, "run" },
	{ "/p/a%7b1,2%7d", "/p/a%7B1,2%7D", "a d_2" },
	{ "/p/%2A%3F%7B,/p/%24x", NULL, "data d_x" },
	{ "./r%7b=q/x", "./r%7B=q/x", "x" },
	{ "r%7b=q/x", "r%7B=q/x", "x" },
	{ "/p/a%7B1%2C2%7D[3]", "/p/a%7B1%2C2%7D%5B3%5D", "a" },     /* one makes all of them literal */
	{ "s3://b/k%5B1%5D*", "s3://b/k%5B1%5D%2A", "k_1" },
	{ "http://h/k%5B1%5D", NULL, "k_5B1_5D" },
	{ "@@/p/l%5B1%5D,@c/x%2A", NULL, "l_1 x" },

	/* DEST */
	{ "/p/x:shm,/p/y:ssd,/p/z:scratch,/p/w:source", NULL, "x y z w" },
	{ "/p/x:/local/../ssd//me/", "/p/x:/ssd/me", "x" },
	{ "/p/x:$SCRATCH/d", NULL, "x" },
	{ "/p/x:~/d", NULL, "x" },

	/* options: canonical order, defaults away */
	{ "/p/x::method=auto+onfail=fail+verify=size+strip=0+shard=all+hydrate=no+keep=no", "/p/x", "x" },
	{ "/p/x::threads=4+method=copy", "/p/x::method=copy+threads=4", "x" },
	{ "/p/x::nested", NULL, "x" },
	{ "/p/x::nested+method=extract", "/p/x::method=extract+nested", "x" },
	{ "/p/x::nested+method=mount", "/p/x::method=mount+nested", "x" },
	{ "/p/x::onfail=source", NULL, "x" },
	{ "/p/x::onfail=ignore+verify=none+strip=2+subdir=a/b", NULL, "x" },
	{ "/p/x::subdir=a/b/", "/p/x::subdir=a/b", "x" },
	{ "/p/x::subdir=./a//b/./", "/p/x::subdir=a/b", "x" },
	{ "/p/x::subdir=.a/./...", "/p/x::subdir=.a/...", "x" },
	{ "/p/x::keep=2h", "/p/x::keep=7200s", "x" },
	{ "/p/x::max=1.5G+timeout=90+stall=500ms", "/p/x::max=1610612736+timeout=90s+stall=500ms", "x" },
	{ "/p/x::shard=node-even+hydrate=copy", NULL, "x" },
	{ "/p/x::keep=2s+links=follow", "/p/x::links=follow+keep=2s", "x" },
	{ "/p/x::links=keep+method=copy", "/p/x::method=copy", "x" },
	{ "s3://b/x::profile=My.lab_1-2@org", NULL, "x" },
	{ "s3://b/x::keys=auto", "s3://b/x", "x" },
	{ "@c::keys=env+nested", "@c::nested+keys=env", "c" },
	{ "@c::profile=default+threads=1", "@c::threads=1+profile=default", "c" },
	{ "/p/x,nested,/p/y::strip=1,./nested", "/p/x,nested,/p/y::strip=1,nested_2=./nested",
	  "x nested y nested_2" },                                   /* files of that name */
	{ "/p/x::include=*.a,./*.b", NULL, "x data" },
	{ "/p/x::include=*.a,/p/*.b", NULL, "x data" },
	{ "/p/x::include=*.a,y.tar", NULL, "x y" },
	{ "/p/x::strip=1,foo=bar", NULL, "x foo" },                  /* options alone are taken for such */
	{ "/p/x::strip=1,threads=a/b", NULL, "x threads" },
	{ "/p/x::max=18446744073709551615", NULL, "x" },
	{ "2012.tar::verify=sha256:" HEX, "2012.tar::verify=sha256:"
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "d_2012" },

	/* names that are made: legal, unique, 32 bytes */
	{ "/p/.hidden", NULL, "data" },
	{ "/", NULL, "data" },
	{ "..", NULL, "data" },
	{ "/p/_x_", NULL, "d_x" },
	{ "/p/_", NULL, "data" },
	{ "/p/-_-", NULL, "data" },
	{ "/p/d", NULL, "d" },
	{ "/p/x_", NULL, "x" },
	{ "s3://b//", NULL, "data" },                                /* the bucket is no name */
	{ "/p/9", NULL, "d_9" },
	{ "/p/\xc3\xa9t\xc3\xa9.tar", NULL, "d__t" },
	{ "/p/my set.v2.tar", NULL, "my_set" },
	{ "/p/a234567890123456789012345678901234567890", NULL, "a2345678901234567890123456789012" },
	{ "/a/x,/b/x,/c/X.tar", "/a/x,x_2=/b/x,X_3=/c/X.tar", "x x_2 X_3" },
	{ "/a/x,x=/b", "x_2=/a/x,x=/b", "x_2 x" },                   /* given names come first */
	{ "x_2=/a,/b/x,/c/x", "x_2=/a,/b/x,x_3=/c/x", "x_2 x x_3" },
	{ "/a/x/a2345678901234567890123456789012,/b/a2345678901234567890123456789012x",
	  "/a/x/a2345678901234567890123456789012,"
	  "a23456789012345678901234567890_2=/b/a2345678901234567890123456789012x",
	  "a2345678901234567890123456789012 a23456789012345678901234567890_2" },
	{ "$SCRATCH/x.tar", NULL, "x" },
	{ "${SCRATCH}/x.tar::verify=sha256:" HEX, "${SCRATCH}/x.tar::verify=sha256:"
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "x" },
};

static const struct {
	const char *value, *item, *hint; /* both must be in the message */
} refused[] = {
	/* the table of stage-data(7) */
	{ "https://h/a.tar?sig=a%2Bb&t=1:2", "\"https://h/a.tar?...\"", "%3A" },
	{ "https://h:shm", "https://h:shm", "https://HOST/PATH" },
	{ "/p/run:12/x.tar", "DEST \"12/x.tar\"", "%3A" },
	{ "C:\\data\\x", "is a path of Windows", "copy the file to this system" }, /* seen failing: write 'C=\data\x' */
	{ "data:images.tar", "DEST \"images.tar\"", "data=images.tar" }, /* a colon where NAME= was meant */
	{ "/p/x:shm:ssd", "\"ssd\"", "is a DEST" },
	{ "/p/x::ssd", "\"ssd\"", "before the second colon" },
	{ "Train=/a,train=/b", "train", "another NAME" },
	{ "x=/a,x=/b", "NAME x", "another NAME" },
	{ "my-set=/p/x", "my-set", "my_set=" },
	{ "/p/*.{jpg,png}::include=*.a,*.b", "\"*.b\"", "include=*.{a,b}" },
	{ "/p/x::exclude=a*,b*", "\"b*\"", "exclude={a*,b*}" },
	{ "s3://b", "s3://b", "s3://BUCKET/KEY" },
	{ "+none", "+none", "none alone" },
	{ "/p/a,none", "\"none\"", "./none" },
	{ "none:shm", "none:shm", "./none" },
	{ "+/p/a", "+/p/a", "./+/p/a" },

	/* empty things */
	{ "", "empty", "none" },
	{ ",", "\"\"", "comma" },
	{ "/p/a,,/p/b", "\"\"", "comma" },
	{ "/p/a,", "\"\"", "comma" },
	{ ":shm", ":shm", "SOURCE" },
	{ "x=", "x=", "SOURCE" },
	{ "@@", "@@", "SOURCE" },
	{ "@", "@", "SOURCE" },
	{ "/p/a, /p/b", "\" /p/b\"", "blank" },

	/* bytes */
	{ "/p/a\nb", "/p/a\\x0ab", "remove it" },
	{ "/p/ok,/p/\x1b[31m", "\"/p/\\x1b[31m\"", "byte 4 (0x1b)" },
	{ "/p/\xff", "\\xff", "UTF-8" },
	{ "/p/\xe9.tar", "\\xe9", "name a link to the file" },
	{ "/p/\xc0\xaf", "\\xc0\\xaf", "UTF-8" },                    /* overlong */
	{ "/p/\xe2\x80\xae" "rat", "\\xe2", "remove it" },        /* right-to-left override */
	{ "/p/\x7f", "\\x7f", "remove it" },

	/* names */
	{ "9a=/p/x", "9a", "d_9a=" },
	{ "a b=/p/x", "a b", "a_b=" },
	{ "=/p/x", "NAME \"\"", "data=" },
	{ "a23456789012345678901234567890123=/p/x", "32 at most", "a2345678901234567890123456789012=" },

	/* addresses */
	{ "https://u:p@h/x", "...@h", "remove what is before the @" },
	{ "https://u@h:80/x", "...@h", "before the @" },
	{ "https:///x", "host is missing", "https://HOST/PATH" },
	{ "https://*.example.org/x", "the host can't be a pattern", "https://HOST/PATH" },
	{ "https://h:0/x", "port", "leave it out" },
	{ "https://h:99999/x", "port", "leave it out" },
	{ "https://h:8a/x", "port", "https://HOST:PORT/PATH" },
	{ "https://h:/local/x", "port", "leave it out" },
	{ "https://[::1/x", "no ]", "http://[::1]" },
	{ "https://[:g!]/x", "IPv6", "fix it" },
	{ "https://h x/a", "host", "https://HOST" },
	{ "https://{a,b}/x", "host", "https://HOST" },
	{ "https://h?x", "no path", "https://HOST/PATH" },
	{ "https://h/a b", "blank", "%20" },
	{ "https://h/a/../b", "\"..\"", "path that is meant" },
	{ "https://h/a/%2e%2E/b", "\"..\"", "path that is meant" },
	{ "https://h/{a,../b}/x", "\"..\"", "path that is meant" },
	{ "ftp://h/x", "ftp://", "https://" },
	{ "htps://h/x", "htps://", "did you mean https?" },
	{ "x://h/y", "x:// is not known", "https://" },
	{ "file:///p/x", "file://", "write '/p/x'" },
	{ "http:/h/x", "http:/h/x", "http://" },
	{ "s3:b/k", "s3:b/k", "s3://" },
	{ "s3://b_u!/k", "bucket", "s3://BUCKET/KEY" },
	{ "s3:///k", "bucket is missing", "s3://BUCKET/KEY" },
	{ "s3://b/pre*/", "don't end in /", "prefix without" },
	{ "s3://b/x*::verify=sha256:" HEX, "digest", "name one file" },
	{ "me@host:/p/x", "me@host:/p/x", "other machines" },

	/* paths */
	{ "/p/a{b", "/p/a{b", "close it" },
	{ "/p/a{b,/p/c", "/p/a{b,/p/c", "close it" },
	{ "/p/{a:b}", "{a", "%3A" },
	{ "/p/{a,../../etc}", "\"..\"", "path that is meant" },
	{ "/p/{a,b}/../c", "\"..\"", "path that is meant" },
	{ "${X", "${X", "${VAR}" },
	{ "${X:-/p}/a", "${X:-/p}/a", "${VAR}" },
	{ "$(pwd)/x", "commands", "$VAR" },
	{ "`pwd`/x", "commands", "$VAR" },
	{ "@a!b", "@a!b", "stagectl list --site" },
	{ "@/x", "@/x", "stagectl list --site" },
	{ "@a/../b", "\"..\"", "top of the dataset" },

	/* DEST */
	{ "/p/x:shn", "shn", "did you mean shm?" },
	{ "/p/x:SSD", "SSD", "did you mean ssd?" },
	{ "/p/x:strip=1", "\"strip=1\"", "::strip=1" },
	{ "/p/x:nested", "\"nested\"", "::nested" },
	{ "/p/x:foo=1", "DEST \"foo=1\" is not known", "auto, shm, ssd" },
	{ "/p/x:method", "DEST \"method\" is not known", "auto, shm, ssd" },
	{ "/p/x:memory", "\"memory\"", "auto, shm, ssd, scratch, source" },
	{ "/p/x:sub/dir", "\"sub/dir\"", "absolute path" },
	{ "/p/x:/", "DEST \"/\"", "below a tier" },
	{ "/p/x:/..", "DEST \"/..\"", "below a tier" },

	/* options */
	{ "/p/x::methd=copy", "\"methd\"", "did you mean method?" },
	{ "/p/x::wibble=1", "\"wibble\"", "known are method, onfail, verify, " },
	{ "/p/x::wibble=1", "\"wibble\"", "threads, profile and keys, joined by +" },
	{ "/p/x::Method=copy", "\"Method\"", "did you mean method?" },
	{ "/p/x::method=kopy", "\"kopy\"", "copy, extract, mount or link" },
	{ "/p/x::method", "method needs a value", "method=" },
	{ "/p/x::method=", "method: \"\"", "copy" },
	{ "/p/x::nested=yes", "nested takes no value", "write '/p/x::nested'" },
	{ "/p/x::strip=1+strip=2", "strip is given twice", "keep one" },
	{ "/p/x::nested+nested", "nested is given twice", "keep one" },
	{ "/p/x::strip=1,nested", "\"nested\"", "joined by +" },
	{ "/p/x::strip=1,method=copy", "\"method=copy\"", "joined by +" },
	{ "/p/x::strip=-1", "\"-1\"", "number" },
	{ "/p/x::strip=129", "\"129\"", "0 to 128" },
	{ "/p/x::threads=0", "\"0\"", "1 to 1024" },
	{ "/p/x::threads=99999999999", "threads", "1 to 1024" },
	{ "/p/x::+nested", "option is empty", "+" },
	{ "/p/x::nested+", "option is empty", "+" },
	{ "/p/x::max=0", "max: \"0\"", "more than 0" },
	{ "/p/x::max=1X", "max: \"1X\"", "200G" },
	{ "/p/x::timeout=soon", "\"soon\"", "30m" },
	{ "/p/x::keep=0", "keep: \"0\"", "no or a time" },
	{ "/p/x::include=", "include: \"\"", "pattern" },
	{ "/p/x::shard=half", "option shard: \"half\"", "is not" },
	{ "/p/x::hydrate=yes", "option hydrate: \"yes\"", "is not" },
	{ "/p/x::links=resolve", "option links: \"resolve\"", "is not" },
	{ "/p/x::links", "links", "links=" },
	{ "/p/x::include={a", "{a", "close it" },
	{ "s3://b/x::profile=", "profile: \"\"", "letters" },
	{ "s3://b/x::profile=a]", "\"a]\"", "letters" },
	{ "s3://b/x::profile=" HEX "0", HEX "0", "letters" },
	{ "/p/x::profile=lab", "profile=", "leave it out" },
	{ "https://h/x::profile=lab", "profile=", "leave it out" },
	{ "s3://b/x::keys=AKIA", "\"AKIA\"", "auto or env" },
	{ "/p/x::keys=env", "keys=", "leave it out" },
	{ "s3://b/x::keys=env+profile=lab", "profile=", "leave one of them out" },
	{ "/p/x::subdir=/a", "/a", "leave the / out" },
	{ "/p/x::subdir=a/../b", "a/../b", "top of the source" },
	{ "/p/x::subdir=..", "\"..\"", "top of the source" },
	{ "/p/x::subdir=", "subdir is empty", "subdir=PATH" },
	{ "/p/x::subdir=./", "subdir is empty", "subdir=PATH" },
	{ "/p/x::verify=md5:00", "md5:00", "sha256:DIGEST" },
	{ "2012.tar::verify=sha256:", "0 digits", "sha256sum" },
	{ "/p/x::verify=sha256:abc", "3 digits", "sha256sum" }, /* seen failing: all was read first */
	{ "/p/x::verify=sha256:" HEX "0", "65 digits", "sha256sum" },
	{ "/p/x::verify=sha256:" HEX32 "0123456789abcdef0123456789abcdeg", "hex digit", "sha256sum" },
	{ "/p/x:shm:strip=1:nested", "\"1:nested\"", "joined by +" },

	/* what can't work */
	{ "/p/x::onfail=source+method=extract", "onfail=source", "onfail=ignore" },
	{ "https://h/x::onfail=source", "onfail=source", "onfail=ignore" },
	{ "https://h/x::method=link", "method=link", "leave it out" },
	{ "/p/x::hydrate=copy+method=copy", "method=copy", "leave one" },
	{ "/p/x::nested+method=copy", "nested", "leave one" },
	{ "/p/x::nested+method=link", "nested", "leave one" },
	{ "/p/x::strip=1+method=mount", "strip=", "leave one" },
	{ "/p/x::links=follow+method=extract", "method=extract", "leave one" },
	{ "/p/x::links=follow+method=link", "method=link", "leave one" },
	{ "/p/x::strip=1+method=copy", "method=copy", "leave one" },
	{ "/p/x::include=*.a+method=mount", "method=mount", "leave one" },
	{ "/p/x::exclude=*.a+method=link", "method=link", "leave one" },
	{ "/p/x::method=link+verify=sha256:" HEX, "can't be verified", "leave verify= or" },
	{ "/p/x:source:method=extract", "DEST source", "leave one" },
	{ "/p/x:source:method=copy", "DEST source", "leave one" },
	{ "/p/*.tar::verify=sha256:" HEX, "digest", "name one file" },
};
/* clang-format on */

static void test_values_read_as_the_manual_says(void **state)
{
	char names[512];

	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		_cleanup_(freep) char *text = NULL;
		struct error err = ERROR_INIT;

		if (dataset_list_from_string(&list, accepted[i].value, &err) < 0)
			fail_msg("%s: %s", accepted[i].value, err.text);
		assert_int_equal(dataset_list_to_string(&list, &text), 0);
		assert_string_equal(text, accepted[i].text ? accepted[i].text : accepted[i].value);
		join_names(&list, names, sizeof(names));
		assert_string_equal(names, accepted[i].names);
	}
}

static void test_refusals_name_item_and_hint(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct dataset_list list = { (struct dataset *)&list, 4711 };
		struct error err = ERROR_INIT;
		int r = dataset_list_from_string(&list, refused[i].value, &err);

		if (r != -EINVAL || !strstr(err.text, refused[i].item) ||
		    !strstr(err.text, refused[i].hint))
			fail_msg("%s: %d %s (wanted: %s, %s)", refused[i].value, r, err.text,
				 refused[i].item, refused[i].hint);
		assert_int_equal(error_to_exit(&err), STAGE_EXIT_USAGE);
		assert_int_equal(list.n_items, 4711); /* untouched */
		assert_int_equal(dataset_list_from_string(&list, refused[i].value, NULL), -EINVAL);
	}
}

static void test_fields_arrive(void **state)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	const struct dataset *d;

	assert_int_equal(dataset_list_from_string(
				 &list,
				 "a=/p/x%2Cy:ssd:method=copy+onfail=source+verify=none+"
				 "subdir=s+include=i%2B+include=j+exclude=k+shard=node+keep=1h+"
				 "max=1K+timeout=2s+stall=3s+threads=4,@@l,@c/s::strip=3,s3://b/k/"
				 ",http://h/x,"
				 "/p/y::hydrate=copy,/p/z.tar::nested,/p/*::links=follow,s3://b/"
				 "k*,s3://b/[k]?",
				 NULL),
			 0);
	assert_int_equal(list.n_items, 10);
	d = list.items;
	assert_string_equal(d->name, "a");
	assert_true(d->name_given);
	assert_string_equal(d->source, "/p/x,y");
	assert_int_equal(d->scheme, DATASET_SCHEME_FILE);
	assert_string_equal(d->dest, "ssd");
	assert_int_equal(d->method, DATASET_METHOD_COPY);
	assert_int_equal(d->onfail, DATASET_ONFAIL_SOURCE);
	assert_int_equal(d->verify, DATASET_VERIFY_NONE);
	assert_int_equal(d[2].strip, 3);
	assert_string_equal(d->subdir, "s");
	assert_int_equal(d->n_include, 2);
	assert_string_equal(d->include[0], "i+");
	assert_string_equal(d->include[1], "j");
	assert_int_equal(d->n_exclude, 1);
	assert_int_equal(d->shard, DATASET_SHARD_NODE);
	assert_int_equal(d->keep_ms, 3600000);
	assert_int_equal(d->max_size, 1024);
	assert_int_equal(d->timeout_ms, 2000);
	assert_int_equal(d->stall_ms, 3000);
	assert_int_equal(d->threads, 4);
	assert_false(d->is_set);
	assert_int_equal(d[1].scheme, DATASET_SCHEME_LIST);
	assert_string_equal(d[1].source, "l");
	assert_true(d[1].is_set);
	assert_false(d[1].name_given);
	assert_int_equal(d[2].scheme, DATASET_SCHEME_CATALOG);
	assert_string_equal(d[2].source, "c/s");
	assert_int_equal(d[3].scheme, DATASET_SCHEME_S3);
	assert_string_equal(d[3].source, "s3://b/k/");
	assert_int_equal(d[4].scheme, DATASET_SCHEME_HTTP);
	assert_string_equal(d[4].dest, "auto");
	assert_true(d[5].hydrate);
	assert_true(d[6].nested);
	assert_true(d[7].is_set);
	assert_true(d[7].follow);
	assert_false(d[6].follow);
	assert_true(d[8].is_set);
	assert_false(d[9].is_set);
	dataset_list_deinit(&list);
	assert_null(list.items); /* and twice is fine */
	assert_int_equal(list.n_items, 0);
}

static void test_limits(void **state)
{
	struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	char value[DATASET_MAX_VALUE + 8];
	size_t n = 0;

	for (unsigned i = 0; i < DATASET_MAX_ITEMS; i++)
		n += (size_t)sprintf(value + n, "%s/p/x%u", i ? "," : "", i);
	assert_int_equal(dataset_list_from_string(&list, value, &err), 0);
	assert_int_equal(list.n_items, DATASET_MAX_ITEMS);
	dataset_list_deinit(&list);
	strcpy(value + n, ",/p/y");
	assert_int_equal(dataset_list_from_string(&list, value, &err), -EINVAL);
	assert_non_null(strstr(err.text, "65 items"));
	assert_non_null(strstr(err.text, "{000..146}"));
	for (unsigned i = 0; i <= DATASET_MAX_ITEMS; i++)
		memcpy(value + 2 * i, i ? ",x" : "./", 3);
	assert_int_equal(dataset_list_from_string(&list, value, &err), -EINVAL);
	assert_non_null(strstr(err.text, "65 items"));

	memset(value, 'a', sizeof(value));
	value[0] = '/';
	value[DATASET_MAX_ITEM] = '\0';
	assert_int_equal(dataset_list_from_string(&list, value, &err), 0);
	dataset_list_deinit(&list);
	value[DATASET_MAX_ITEM] = 'a';
	value[DATASET_MAX_ITEM + 1] = '\0';
	assert_int_equal(dataset_list_from_string(&list, value, &err), -EINVAL);
	assert_non_null(strstr(err.text, "4097 bytes"));

	value[DATASET_MAX_ITEM + 1] = 'a';
	value[DATASET_MAX_VALUE + 1] = '\0';
	assert_int_equal(dataset_list_from_string(&list, value, &err), -EINVAL);
	assert_non_null(strstr(err.text, "@@FILE"));

	n = (size_t)sprintf(value, "/p/x::include=a");
	for (unsigned i = 1; i < DATASET_MAX_GLOBS; i++)
		n += (size_t)sprintf(value + n, "+include=a");
	assert_int_equal(dataset_list_from_string(&list, value, &err), 0);
	dataset_list_deinit(&list);
	strcpy(value + n, "+include=a");
	assert_int_equal(dataset_list_from_string(&list, value, &err), -EINVAL);
	assert_non_null(strstr(err.text, "include=*.{a,b}"));
}

static void test_expansion(void **state)
{
	/* clang-format off */
	static const struct {
		const char *value, *text, *hint; /* text: canonical when expanded; or the refusal */
	} cases[] = {
		{ "/p/x/", "/p/x" },
		{ "x.tar", "/cwd/dir/x.tar" },
		{ "../x.tar", "/cwd/x.tar" },
		{ "./a/../b/", "/cwd/dir/b" },
		{ "..", "/cwd" },
		{ "$SCRATCH/x", "/p/scratch/proj/x" },
		{ "${SCRATCH}2/x", "/p/scratch/proj2/x" },
		{ "${SCRATCH}/../x", "/p/scratch/x" },               /* no braces of a pattern */
		{ "$REL/x", "/cwd/dir/sub/dir/x" },
		{ "$_x1", "/p/x1" },
		{ "$SCRATCH$EMPTY/x", "/p/scratch/proj/x" },
		{ "~", "/home/me" },
		{ "~/x", "/home/me/x" },
		{ "/p/~/x", "/p/~/x" },                              /* only in front */
		{ "./~", "/cwd/dir/~" },
		{ "@@l.txt", "@@/cwd/dir/l.txt" },
		{ "@@$SCRATCH/l.txt", "@@/p/scratch/proj/l.txt" },
		{ "s-{0..9}.tar", "/cwd/dir/s-{0..9}.tar" },
		{ "{a,b}/c", "/cwd/dir/{a,b}/c" },
		{ "$COMMA", "/p/a%2Cb" },                            /* never split again */
		{ "$COLON:shm", "/p/a%3Ab%2Bc%252C:shm" },           /* nor decoded again */
		{ "$BLANK/x", "/p/a b/x" },
		{ "$DOLLAR/x", "/cwd/dir/%24SCRATCH/x" },            /* nor expanded again */
		{ "/p/%24NOPE/x*", "/p/%24NOPE/x*" },
		{ "~/%24NOPE", "/home/me/%24NOPE" },
		{ "$SCRATCH/run%5B1%5D", "/p/scratch/proj/run%5B1%5D" },
		{ "$STAR%5B", "/p/%2A.tar%5B" },
		{ "/p/x%5B/../y", "/p/y" },
		{ "https://h/$SCRATCH/x", "https://h/$SCRATCH/x" },  /* an address is as it is */
		{ "s3://b/$SCRATCH", "s3://b/$SCRATCH" },
		{ "@c/$x", "@c/$x" },
		{ "/p/x:$SCRATCH/d/../e", "/p/x:/p/scratch/proj/e" },
		{ "/p/x:~/d", "/p/x:/home/me/d" },
		{ "/p/x:$TIER", "/p/x:ssd" },
		{ "https://h/x:$SCRATCH/d", "https://h/x:/p/scratch/proj/d" },
		{ "/p/x::subdir=$REL/y", "/p/x::subdir=sub/dir/y" },
		{ "n=$SCRATCH", "n=/p/scratch/proj" },
		{ "$SCRATCH,/q/proj", "/p/scratch/proj,proj_2=/q/proj" }, /* names are made anew */
		{ "$STAR", "/p/*.tar" },

		{ "$NOPE/x", "variable NOPE is not set", "set and export it" },
		{ "/p/x:$NOPE", "variable NOPE", "export" },
		{ "/p/x::subdir=${NOPE}", "variable NOPE", "export" },
		{ "$EMPTY", "nothing is left", "set them" },
		{ "~you/x", "~USER", "./" },
		{ "$/x", "\"$/x\" is no variable", "$VAR" },
		{ "/p/a$", "\"$\" is no variable", "a $ of a name is written %24" },
		{ "/p/x::subdir=a$", "\"$\" is no variable", "written as a variable that contains it" },
		{ "/p/x::subdir=$NOPE/a", "variable NOPE", "written as a variable that contains it" },
		{ "$1", "no variable", "$VAR" },
		{ "${A-b}/x", "no variable", "${VAR}" },
		{ "${}", "no variable", "${VAR}" },
		{ "$CONTROL", "variable CONTROL", "set it again" },
		{ "$BRACE", "{ without a }", "close it" },
		{ "$CLIMB", "\"..\"", "path that is meant" },
		{ "/p/x:$REL", "\"sub/dir\"", "absolute path" },
		{ "/p/x:$DOLLAR", "not an absolute path", "write one" },
		{ "/p/x::subdir=$UP", "../..", "top of the source" },
		{ "/../x", "climbs above /", "\"..\"" },
		{ "../../../x", "climbs above /", "\"..\"" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		_cleanup_(freep) char *text = NULL;
		struct error err = ERROR_INIT;
		int r;

		assert_int_equal(dataset_list_from_string(&list, cases[i].value, &err), 0);
		r = dataset_list_expand(&list, "/cwd/dir", "/home/me", get_env, NULL, &err);
		if (cases[i].hint) {
			if (r != -EINVAL || !strstr(err.text, cases[i].text) ||
			    !strstr(err.text, cases[i].hint) || !strstr(err.text, "item \""))
				fail_msg("%s: %d %s", cases[i].value, r, err.text);
			continue;
		}
		if (r < 0)
			fail_msg("%s: %s", cases[i].value, err.text);
		assert_int_equal(dataset_list_to_string(&list, &text), 0);
		assert_string_equal(text, cases[i].text);
	}
}

static void test_names_of_variables_have_bounds(void **state)
{
	static const struct {
		size_t n;
		const char *text;
	} cases[] = { { 255, "is not set here" },
		      { 256, "has too long a name" },
		      { 1000, "has too long a name" } };
	char value[1100] = "$";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		struct error err = ERROR_INIT;

		memset(value + 1, 'a', cases[i].n);
		value[cases[i].n + 1] = '\0';
		assert_int_equal(dataset_list_from_string(&list, value, &err), 0);
		assert_int_equal(dataset_list_expand(&list, "/", "/", get_env, NULL, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, cases[i].text));
	}
}

static const char *get_long(void *arg, const char *name)
{
	return arg;
}

/* Seen failing without each of the three checks, and with bounds that are one off. */
static void test_what_is_too_long_when_expanded(void **state)
{
	static const struct {
		char byte;
		size_t n;
		const char *item;
		unsigned n_items;
		const char *text; /* NULL: it fits */
	} cases[] = {
		{ 'a', 4091, "$X", 1, NULL }, /* "d_X=" is in front */
		{ 'a', 4092, "$X", 1, "has 4097 bytes when expanded and may have 4096" },
		{ 'a', 4095, "$X", 1, "the path has 4096 bytes when expanded and may have 4095" },
		{ ',', 1363, "$X", 1, NULL }, /* each is written in three bytes */
		{ ',', 1364, "$X", 1, "has 4097 bytes when expanded and may have 4096" },
		{ 'a', 4000, "$X", 8, NULL },
		{ 'a', 4000, "$X", 9,
		  "the value has 36044 bytes when expanded and may have 32768" },
	};
	char value[1100];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		_cleanup_(freep) char *variable = calloc(1, cases[i].n + 2);
		struct error err = ERROR_INIT;
		int r;

		variable[0] = '/';
		memset(variable + 1, cases[i].byte, cases[i].n);
		value[0] = '\0';
		for (unsigned k = 0; k < cases[i].n_items; k++)
			sprintf(value + strlen(value), "%sn%u=%s", k ? "," : "", k, cases[i].item);
		assert_int_equal(dataset_list_from_string(
					 &list, value + (cases[i].n_items == 1 ? 3 : 0), &err),
				 0);
		r = dataset_list_expand(&list, "/", "/", get_long, variable, &err);
		if (r != (cases[i].text ? -EINVAL : 0) ||
		    (r < 0 && !strstr(err.text, cases[i].text)))
			fail_msg("case %zu: %d %s", i, r, r < 0 ? err.text : "");
	}
}

static void test_expansion_needs_home_and_a_plain_directory(void **state)
{
	static const char *const odd[] = { "/a{b", "/p/run[1]", "/p/a*", "/p/what?/x" };
	static const char *const homes[] = { NULL, "", "home/me", "/home/\x1b[31m", "/home/\xff" };
	static const char *const relative[] = { "x", "./x", "$REL/../../x", "@@x" };
	struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		assert_int_equal(dataset_list_from_string(&list, "~/x", NULL), 0);
		assert_int_equal(dataset_list_expand(&list, "/", homes[i], get_env, NULL, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, "HOME"));
		dataset_list_deinit(&list);
	}
	/* seen failing: in /p/run[1] the file x was that of /p/run1, and in /a{b there was nothing
	 * to be had from anywhere */
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(relative); k++) {
			char path[64];

			assert_int_equal(dataset_list_from_string(&list, relative[k], NULL), 0);
			assert_int_equal(
				dataset_list_expand(&list, odd[i], NULL, get_env, NULL, &err), 0);
			snprintf(path, sizeof(path), "%s/x", odd[i]);
			assert_string_equal(list.items[0].source, path);
			assert_int_equal(list.items[0].is_set, relative[k][0] == '@');
			dataset_list_deinit(&list);
		}
		assert_int_equal(dataset_list_from_string(&list, "s-*.tar", NULL), 0);
		assert_int_equal(dataset_list_expand(&list, odd[i], NULL, get_env, NULL, &err),
				 -EINVAL);
		assert_non_null(strstr(err.text, "submit from another"));
		dataset_list_deinit(&list);
		assert_int_equal(dataset_list_from_string(
					 &list, i ? "/p/x,@@l,@c,s3://b/k" : "/p/x,@@/p/l", NULL),
				 0);
		assert_int_equal(dataset_list_expand(&list, odd[i], NULL, get_env, NULL, &err), 0);
		assert_string_equal(list.items[0].source, "/p/x");
		assert_false(list.items[0].is_set);
		dataset_list_deinit(&list);
	}
}

static const char *get_profile(void *arg, const char *name)
{
	return strcmp(name, "AWS_PROFILE") ? NULL : arg;
}

static void test_profile_of_the_environment(void **state)
{
	static const struct {
		const char *value, *profile, *text;
	} cases[] = {
		{ "s3://b/k", "lab", "s3://b/k::profile=lab" },
		{ "s3://b/k:shm:threads=2", "lab", "s3://b/k:shm:threads=2+profile=lab" },
		{ "s3://b/k::profile=default", "lab", "s3://b/k::profile=default" },
		{ "s3://b/k", "", "s3://b/k" },
		{ "s3://b/k", NULL, "s3://b/k" },
		{ "/p/x,@c,https://h/x", "lab", "/p/x,@c,x_2=https://h/x" },
		{ "/p/x", "a]\n", "/p/x" }, /* is not looked at */
		{ "s3://b/k", "a]", NULL },
		{ "s3://b/k", "a\n[default]", NULL },
		{ "s3://b/k", HEX "0", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		_cleanup_(freep) char *text = NULL, *profile = NULL;
		struct error err = ERROR_INIT;
		int r;

		profile = cases[i].profile ? strdup(cases[i].profile) : NULL;
		assert_int_equal(dataset_list_from_string(&list, cases[i].value, NULL), 0);
		r = dataset_list_expand(&list, "/", "/home/me", get_profile, profile, &err);
		assert_int_equal(r, cases[i].text ? 0 : -EINVAL);
		assert_int_equal(dataset_list_to_string(&list, &text), 0);
		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
		else
			assert_non_null(strstr(err.text, "AWS_PROFILE"));
	}
}

static const char *get_keys(void *arg, const char *name)
{
	const char *p = strstr(arg, name);

	return !p ? NULL : p[strlen(name)] == '=' ? "" : "x/+";
}

/* Red when a variable that is empty counts, when a profile that is named does not, or when what the
 * variables say gets into the value. */
static void test_keys_of_the_environment(void **state)
{
	static const char both[] = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_PROFILE";
	static const struct {
		const char *value, *env, *text;
	} cases[] = {
		{ "s3://b/k", both, "s3://b/k::keys=env" },
		{ "@c,/p/x,https://h/y", both, "@c::keys=env,/p/x,https://h/y" },
		{ "s3://b/k::profile=lab", both, "s3://b/k::profile=lab" },
		{ "s3://b/k", "AWS_ACCESS_KEY_ID", "s3://b/k" },
		{ "s3://b/k", "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY=", "s3://b/k" },
		{ "s3://b/k::keys=env", "", "s3://b/k::keys=env" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		_cleanup_(freep) char *text = NULL;

		assert_int_equal(dataset_list_from_string(&list, cases[i].value, NULL), 0);
		assert_int_equal(dataset_list_expand(&list, "/", "/home/me", get_keys,
						     (void *)cases[i].env, NULL),
				 0);
		assert_int_equal(dataset_list_to_string(&list, &text), 0);
		assert_string_equal(text, cases[i].text);
	}
}

static void test_merge(void **state)
{
	/* clang-format off */
	static const struct {
		const char *script[3], *command_line[3];
		const char *value; /* NULL: nothing given */
		const char *refusal;
	} cases[] = {
		{ { NULL }, { NULL }, NULL },
		{ { "/a" }, { NULL }, "/a" },
		{ { "/a", "/b,/c" }, { NULL }, "/a,/b,/c" },         /* script lines add up */
		{ { "/a" }, { "/b" }, "/b" },                        /* the command line replaces */
		{ { "/a" }, { "+/b" }, "/a,/b" },                    /* or adds */
		{ { "/a" }, { "+/b", "+/c" }, "/a,/b,/c" },
		{ { "/a" }, { "/b", "+/c" }, "/b,/c" },
		{ { NULL }, { "+/b" }, "/b" },
		{ { "/a" }, { "none" }, "none" },
		{ { "none" }, { "+/b" }, "none,/b" },                /* refused by the reader */
		{ { "/a" }, { "+none" }, NULL, "none alone" },
		{ { NULL }, { "+none" }, NULL, "none alone" },
		{ { "/a" }, { "" }, NULL, "none" },
		{ { "" }, { NULL }, NULL, "none" },
		{ { "/a" }, { "+" }, NULL, "none" },
		{ { NULL }, { "--mem=300M" }, NULL, "no value before --mem=300M; write --stage-data=SOURCE" },
		{ { NULL }, { "-N2" }, NULL, "written ./-N2" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *value = NULL;
		struct error err = ERROR_INIT;
		size_t n_script = 0, n_line = 0;
		int r;

		while (n_script < 3 && cases[i].script[n_script])
			n_script++;
		while (n_line < 3 && cases[i].command_line[n_line])
			n_line++;
		r = dataset_merge(&value, cases[i].script, n_script, cases[i].command_line, n_line,
				  &err);
		assert_int_equal(r, cases[i].refusal ? -EINVAL : 0);
		if (cases[i].refusal)
			assert_non_null(strstr(err.text, cases[i].refusal));
		else if (!cases[i].value)
			assert_null(value);
		else
			assert_string_equal(value, cases[i].value);
	}
}

static void test_options_that_the_shell_made_are_one_message(void **state)
{
	static char texts[147][32];
	const char *values[147];
	struct error err = ERROR_INIT;
	char *value = NULL;

	for (unsigned i = 0; i < 147; i++) {
		sprintf(texts[i], "/p/s-%03u.tar:shm", i);
		values[i] = texts[i];
	}
	assert_int_equal(dataset_merge(&value, NULL, 0, values, 147, &err), -EINVAL);
	assert_non_null(strstr(err.text, "147 options in a row"));
	assert_non_null(
		strstr(err.text, "quote the value: '--stage-data=/p/s-{000..146}.tar:shm'"));
	assert_int_equal(dataset_merge(&value, NULL, 0, values, 20, &err), -EINVAL);
	assert_non_null(strstr(err.text, "\"/p/s-000.tar:shm\" to \"/p/s-019.tar:shm\""));
	values[0] = "/p/00-0123456789abcdef0123456789abcdef0123456789abcdef.tar";
	for (unsigned i = 1; i < 20; i++)
		values[i] = i % 2 ? "/p/01-0123456789abcdef0123456789abcdef0123456789abcdef.tar"
				  : "/p/02-0123456789abcdef0123456789abcdef0123456789abcdef.tar";
	assert_int_equal(dataset_merge(&value, NULL, 0, values, 20, &err),
			 -EINVAL); /* their ends are alike */
	/* but not if one has a long middle of its own */
	for (size_t odd = 0; odd < 20; odd += 19) {
		for (unsigned i = 0; i < 20; i++)
			values[i] = "/p/a.tar";
		values[odd] = "/p/0123456789abcdef0123456789abcdef0.tar";
		assert_int_equal(dataset_merge(&value, NULL, 0, values, 20, &err), 0);
		free(value);
		values[odd] = "/p/0123456789abcdef0123456789abcdef.tar";
		assert_int_equal(dataset_merge(&value, NULL, 0, values, 20, &err), -EINVAL);
	}
	for (unsigned i = 0; i < 147; i++) {
		sprintf(texts[i], "/p/s-%03u.tar:shm", i);
		values[i] = texts[i];
	}
	/* lines of a script were written by hand */
	assert_int_equal(dataset_merge(&value, values, 20, NULL, 0, &err), 0);
	free(value);
	/* and so were a few */
	assert_int_equal(dataset_merge(&value, NULL, 0, values, 4, &err), 0);
	free(value);
	/* or ones that have nothing in common */
	for (unsigned i = 0; i < 20; i++)
		texts[i][0] = "./~"[i % 3];
	assert_int_equal(dataset_merge(&value, NULL, 0, values, 20, &err), 0);
	free(value);
}

static void test_merge_is_bounded(void **state)
{
	_cleanup_(freep) char *big = malloc(DATASET_MAX_VALUE);
	const char *values[2] = { big, big };
	struct error err = ERROR_INIT;
	char *value = NULL;

	memset(big, 'a', DATASET_MAX_VALUE - 1);
	big[DATASET_MAX_VALUE - 1] = '\0';
	assert_int_equal(dataset_merge(&value, values, 2, NULL, 0, &err), -EINVAL);
	assert_non_null(strstr(err.text, "@@FILE"));
}

static void test_environment_name(void **state)
{
	struct dataset d = { .name = "train_Set2" };
	char buf[sizeof("STAGE_DATA_PATH_") + DATASET_NAME_SIZE];

	dataset_env_name(&d, "STAGE_DATA_PATH_", buf, sizeof(buf));
	assert_string_equal(buf, "STAGE_DATA_PATH_TRAIN_SET2");
}

static void test_shown_source_keeps_secrets(void **state)
{
	struct dataset d = { .scheme = DATASET_SCHEME_HTTP, .source = (char *)"https://h/a?sig=1" };
	char buf[64], small[16];

	assert_string_equal(dataset_show_source(&d, buf, sizeof(buf)), "https://h/a?...");
	assert_string_equal(dataset_show_source(&d, buf, sizeof("https://h/a?...")),
			    "https://h/a?...");
	assert_string_equal(dataset_show_source(&d, buf, sizeof("https://h/a?...") - 1),
			    "https://h/a...");
	d.scheme = DATASET_SCHEME_LIST;
	d.source = (char *)"/l.txt";
	assert_string_equal(dataset_show_source(&d, buf, sizeof(buf)), "@@/l.txt");
	d.scheme = DATASET_SCHEME_FILE;
	d.source = (char *)"/p/is/a/long/path/to/x";
	assert_string_equal(dataset_show_source(&d, small, sizeof(small)), "/p/is/a/long...");
	assert_string_equal(dataset_show_source(&d, small, 2), "");
}

static void test_refusals_keep_secrets(void **state)
{
	static const char *const values[] = {
		"t=https://user:CANARY@h/x.tar",
		"https://CANARY@h/x.tar",
		"t=https://h/x.tar?sig=CANARY::metod=copy",
		"t=https://h?sig=CANARY",
		"t=s3://b/k?X-Amz-Signature=CANARY::method=magic",
		"/p/x::metod=copy,t=https://user:CANARY@h/x.tar",
		"t=https://user:CANARY@h/x?CANARY\x01",
	};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		struct error err = ERROR_INIT;

		assert_true(dataset_list_from_string(&list, values[i], &err) < 0);
		if (strstr(err.text, "CANARY"))
			fail_msg("%s: %s", values[i], err.text);
	}
}

/* Properties, over lists made of pieces that mean something to the reader. */
static uint32_t random_state = 1;

static uint32_t next_random(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % below;
}

static void make_value(char *buf, size_t size, unsigned n_pieces)
{
	static const char *const pieces[] = {
		"a=",
		"N2=",
		"/p/",
		"x",
		".tar",
		":",
		"::",
		",",
		"+",
		"shm",
		"ssd",
		"auto",
		"/local/d",
		"method=copy",
		"method=extract",
		"nested",
		"include=",
		"exclude=",
		"*.jpg",
		"{a,b}",
		"{0..9}",
		"{",
		"}",
		"%2C",
		"%3A",
		"%2B",
		"%25",
		"%",
		"%20",
		"@",
		"@@",
		"https://h/",
		"http://h:80/",
		"s3://b/",
		"?q=1",
		"[1]",
		"~",
		"$SCRATCH",
		"${REL}",
		"$",
		"..",
		"./",
		"/",
		"none",
		" ",
		"=",
		"verify=none",
		"verify=sha256:" HEX,
		"strip=2",
		"subdir=",
		"s/t",
		"shard=node",
		"hydrate=copy",
		"links=follow",
		"keep=90ms",
		"max=5G",
		"timeout=3",
		"stall=1h",
		"threads=2",
		"profile=lab",
		"keys=env",
		"onfail=source",
		"\xc3\xa9",
		"\\",
		"#",
		"\xff",
		"\n",
		"-",
		"_",
		"9",
	};

	buf[0] = '\0';
	for (unsigned i = 0; i < n_pieces; i++)
		strncat(buf, pieces[next_random(ARRAY_SIZE(pieces))], size - strlen(buf) - 1);
}

static void assert_texts_equal(const char *a, const char *b)
{
	assert_true((a == NULL) == (b == NULL));
	if (a)
		assert_string_equal(a, b);
}

static void assert_datasets_equal(const struct dataset *a, const struct dataset *b)
{
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->scheme, b->scheme);
	assert_string_equal(a->source, b->source);
	assert_int_equal(a->is_set, b->is_set);
	assert_string_equal(a->dest, b->dest);
	assert_int_equal(a->method, b->method);
	assert_int_equal(a->onfail, b->onfail);
	assert_int_equal(a->verify, b->verify);
	assert_string_equal(a->sha256, b->sha256);
	assert_int_equal(a->shard, b->shard);
	assert_int_equal(a->nested, b->nested);
	assert_int_equal(a->hydrate, b->hydrate);
	assert_int_equal(a->follow, b->follow);
	assert_int_equal(a->strip, b->strip);
	assert_texts_equal(a->subdir, b->subdir);
	assert_int_equal(a->n_include, b->n_include);
	for (size_t i = 0; i < a->n_include; i++)
		assert_string_equal(a->include[i], b->include[i]);
	assert_int_equal(a->n_exclude, b->n_exclude);
	for (size_t i = 0; i < a->n_exclude; i++)
		assert_string_equal(a->exclude[i], b->exclude[i]);
	assert_int_equal(a->keep_ms, b->keep_ms);
	assert_int_equal(a->max_size, b->max_size);
	assert_int_equal(a->timeout_ms, b->timeout_ms);
	assert_int_equal(a->stall_ms, b->stall_ms);
	assert_int_equal(a->threads, b->threads);
	assert_string_equal(a->profile, b->profile);
	assert_int_equal(a->env_keys, b->env_keys);
}

/* print(list) reads back to list, and prints the same again. */
static void assert_survives_printing(const struct dataset_list *list)
{
	_cleanup_(dataset_list_deinit) struct dataset_list again = { 0 };
	_cleanup_(freep) char *text = NULL, *text2 = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(dataset_list_to_string(list, &text), 0);
	if (dataset_list_from_string(&again, text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	assert_int_equal(again.n_items, list->n_items);
	for (size_t i = 0; i < list->n_items; i++)
		assert_datasets_equal(&list->items[i], &again.items[i]);
	assert_int_equal(dataset_list_to_string(&again, &text2), 0);
	assert_string_equal(text, text2);
}

/* The text of one item alone keeps its name. */
static void assert_items_survive_alone(const struct dataset_list *list)
{
	for (size_t i = 0; i < list->n_items; i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list one = { 0 };
		_cleanup_(freep) char *text = NULL;

		assert_int_equal(dataset_to_string(&list->items[i], &text), 0);
		assert_int_equal(dataset_list_from_string(&one, text, NULL), 0);
		assert_int_equal(one.n_items, 1);
		assert_datasets_equal(&list->items[i], &one.items[0]);
	}
}

static void assert_names_are_unique(const struct dataset_list *list)
{
	for (size_t i = 0; i < list->n_items; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(strcasecmp(list->items[i].name, list->items[j].name) != 0);
}

static unsigned count_runs(void)
{
	const char *s = getenv("STAGE_TEST_RUNS");
	uint32_t n;

	return s && parse_uint32(s, &n) == 0 ? n : 30000;
}

static void check_random_value(const char *value, unsigned *n_goodp)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;

	if (dataset_list_from_string(&list, value, &err) < 0) {
		assert_true(err.code < 0 && *err.text);
		return;
	}
	(*n_goodp)++;
	assert_survives_printing(&list);
	assert_items_survive_alone(&list);
	assert_names_are_unique(&list);
	if (dataset_list_expand(&list, "/cwd", "/home/me", get_env, NULL, &err) < 0) {
		assert_true(err.code < 0 && *err.text);
		return;
	}
	assert_survives_printing(&list);
	assert_names_are_unique(&list);
}

static void test_printed_values_read_back_the_same(void **state)
{
	unsigned n = count_runs(), n_good = 0;
	char value[512];

	for (unsigned i = 0; i < n; i++) {
		make_value(value, sizeof(value), 1 + next_random(12));
		check_random_value(value, &n_good);
	}
	assert_true(n_good > n / 50); /* or nothing was tested */
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++)
		check_random_value(accepted[i].value, &n_good);
}

static void test_any_bytes_are_answered(void **state)
{
	unsigned n = count_runs(), n_good = 0;
	char value[256];

	for (unsigned i = 0; i < n; i++) {
		snprintf(value, sizeof(value), "%s",
			 accepted[next_random(ARRAY_SIZE(accepted))].value);
		for (unsigned k = next_random(4) + 1; k > 0; k--) {
			size_t len = strlen(value), at = next_random((uint32_t)len + 1);

			switch (next_random(3)) {
			case 0:
				value[at] = at < len ? (char)next_random(256) : '\0';
				break;
			case 1:
				memmove(value + at, value + at + (at < len),
					len - at + (at == len));
				break;
			default:
				if (len + 2 < sizeof(value)) {
					memmove(value + at + 1, value + at, len - at + 1);
					value[at] = ",:+%={}@$~/."[next_random(12)];
				}
			}
		}
		check_random_value(value, &n_good);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_read_as_the_manual_says),
		cmocka_unit_test(test_refusals_name_item_and_hint),
		cmocka_unit_test(test_fields_arrive),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_expansion),
		cmocka_unit_test(test_names_of_variables_have_bounds),
		cmocka_unit_test(test_what_is_too_long_when_expanded),
		cmocka_unit_test(test_expansion_needs_home_and_a_plain_directory),
		cmocka_unit_test(test_profile_of_the_environment),
		cmocka_unit_test(test_keys_of_the_environment),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_options_that_the_shell_made_are_one_message),
		cmocka_unit_test(test_merge_is_bounded),
		cmocka_unit_test(test_environment_name),
		cmocka_unit_test(test_shown_source_keeps_secrets),
		cmocka_unit_test(test_refusals_keep_secrets),
		cmocka_unit_test(test_printed_values_read_back_the_same),
		cmocka_unit_test(test_any_bytes_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
