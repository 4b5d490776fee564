/* Slips of the pen in the option's language: the message shows the item that was meant. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "common/dataset/dataset.h"

#define HEX32 "0123456789abcdef0123456789abcdef"
#define HEX HEX32 HEX32

/* clang-format off */
static const struct {
	const char *typed, *meant; /* meant: in quotes at the end of the message */
} slips[] = {
	/* the wrong separator */
	{ "/p/x:shm+keep=2h", "/p/x:shm:keep=2h" },
	{ "/p/x:shm:strip=1:nested", "/p/x:shm:strip=1+nested" },
	{ "/p/x:shm,keep=2h", "/p/x:shm:keep=2h" },
	{ "/p/x:shm,nested", "/p/x:shm:nested" },
	{ "/p/x::strip=1,nested", "/p/x::strip=1+nested" },
	{ "a=/p/x:ssd:strip=1,method=extract", "a=/p/x:ssd:strip=1+method=extract" },
	{ "/p/y,/p/x::strip=1,nested", "/p/x::strip=1+nested" },
	{ "/p/x:shm;keep=2h", "/p/x:shm:keep=2h" },
	{ "/p/x:shm:strip=1 nested", "/p/x:shm:strip=1+nested" },
	{ "/p/x:strip=1", "/p/x::strip=1" },
	{ "/p/x:nested", "/p/x::nested" },
	{ "/p/x:strip=1:nested", "/p/x::strip=1+nested" },
	{ "/p/x:shm:nested+", "/p/x:shm:nested" },
	{ "/p/x::+nested", "/p/x::nested" },
	{ "/p/x::include=*.jpg,*.png", "/p/x::include=*.{jpg,png}" },
	{ "/p/x:ssd:exclude=a*,b*", "/p/x:ssd:exclude={a*,b*}" },
	{ "s3://b/k*:shm+keep=2h", "s3://b/k*:shm:keep=2h" },
	{ "'/p/s-{0..5}.tar:ssd+shard=node'", "/p/s-{0..5}.tar:ssd:shard=node" },

	/* the wrong order */
	{ "/p/x:strip=1:shm", "/p/x:shm:strip=1" },
	{ "/p/x::keep=2h:shm", "/p/x:shm:keep=2h" },
	{ "/p/x::shm", "/p/x:shm" },
	{ "shm:/p/x.tar", "/p/x.tar:shm" },
	{ "shm:/p/x.tar:keep=2h", "/p/x.tar:shm:keep=2h" },
	{ "data:images.tar", "data=images.tar" },

	/* blanks and quotes */
	{ "/p/x: shm", "/p/x:shm" },
	{ "/p/x:shm: keep=2h", "/p/x:shm:keep=2h" },
	{ "/p/a, /p/b", "/p/b" },
	{ " /p/a:shm", "/p/a:shm" },
	{ "img = /p/x", "img=/p/x" },

	/* misspelt, or another word for it */
	{ "/p/x:shn", "/p/x:shm" },
	{ "/p/x:SHM:keep=2h", "/p/x:shm:keep=2h" },
	{ "/p/x:memory", "/p/x:shm" },
	{ "/p/x:nvme:keep=2h", "/p/x:ssd:keep=2h" },
	{ "/p/x:tier=shm", "/p/x:shm" },
	{ "/p/x:shm:kep=2h", "/p/x:shm:keep=2h" },
	{ "/p/x::Method=copy", "/p/x::method=copy" },
	{ "/p/x::method=kopy", "/p/x::method=copy" },
	{ "/p/x::methd=extrct+strip=1", "/p/x::method=extract+strip=1" },
	{ "/p/x::method=untar", "/p/x::method=extract" },
	{ "/p/x::strip-components=1", "/p/x::strip=1" },
	{ "/p/x::--exclude=*.txt", "/p/x::exclude=*.txt" },
	{ "/p/x::recursive", "/p/x::nested" },
	{ "/p/x::extract", "/p/x::method=extract" },
	{ "/p/x:copy", "/p/x::method=copy" },
	{ "/p/x::hydrate", "/p/x::hydrate=copy" },
	{ "/p/x::dereference", "/p/x::links=follow" },
	{ "/p/x::symlinks=copy", "/p/x::links=follow" },
	{ "/p/x::hydrate=yes", "/p/x::hydrate=copy" },
	{ "/p/x::onfail=skip", "/p/x::onfail=ignore" },
	{ "/p/x::shard=nodes", "/p/x::shard=node" },
	{ "htps://h/x.tar", "https://h/x.tar" },
	{ "http:/h/x", "http://h/x" },
	{ "s3:b/k:shm", "s3://b/k:shm" },
	{ "file:///p/x:shm", "/p/x:shm" },
	{ "$(pwd)/x:ssd", "$PWD/x:ssd" },

	/* the value */
	{ "/p/x::strip1", "/p/x::strip=1" },
	{ "/p/x:shm:keep2h", "/p/x:shm:keep=2h" },
	{ "/p/x::keep:2h", "/p/x::keep=2h" },
	{ "/p/x::nested=yes", "/p/x::nested" },
	{ "/p/x:ssd:keep=2hours", "/p/x:ssd:keep=2h" },
	{ "/p/x::timeout=30min", "/p/x::timeout=30m" },
	{ "/p/x::timeout=1:30:00", "/p/x::timeout=1h30m0s" },
	{ "/p/x::subdir=/a/b", "/p/x::subdir=a/b" },
	{ "/p/x::verify=" HEX, "/p/x::verify=sha256:" HEX },
	{ "/p/x::sha256=" HEX, "/p/x::verify=sha256:" HEX },
	{ "/p/x::verify=sha256=" HEX, "/p/x::verify=sha256:" HEX },

	/* the name and the path */
	{ "my-set=/p/x:shm", "my_set=/p/x:shm" },
	{ "2012=/p/x", "d_2012=/p/x" },
	{ "/p/run:12/x.tar", "/p/run%3A12/x.tar" },
	{ "/p/2024-01-01T10:30:00.tar:shm", "/p/2024-01-01T10%3A30%3A00.tar:shm" },
	{ "https://h/a b.tar", "https://h/a%20b.tar" },
};

/* Nothing is offered where it is not known, or might be a secret. */
static const char *const silent[] = {
	"/p/x:foo=1", "/p/x:wibble", "/p/x::wibble=1", "/p/x::strip=129", "/p/x:shm:ssd", "", ",", ":shm", "x=",
	"https://h/a.tar?sig=secret&t=1:2", "https://u:secret@h/x:shm+keep=2h", "https://h/x?t=secret:shm+nested",
	"C:\\data\\x", "me@host:/p/x", "/p/x::keep", "/p/x::keep=0", "none:shm",
};

/* A source that is not there, and what is said of it. */
static const struct {
	const char *value;
	size_t index;
	const char *hint;
} hints[] = {
	{ "/p/a,b.tar", 0, "; a comma begins another item: if it belongs to the name, write '/p/a%2Cb.tar'" },
	{ "/p/a,b.tar", 1, "; a comma begins another item: if it belongs to the name, write '/p/a%2Cb.tar'" },
	{ "/p/y,/p/x,keep=2h", 2, "; a comma begins another item: write '/p/x::keep=2h'" },
	{ "/p/x,shm", 1, "; a comma begins another item: write '/p/x:shm'" },
	{ "/p/x,strp=1", 1, "; a comma begins another item: write '/p/x::strip=1'" },
	{ "/p/x:shm,methd=copy", 1, "; a comma begins another item: write '/p/x:shm:method=copy'" },
	{ "/p/x::nested,strp=1", 1, "; a comma begins another item: write '/p/x::nested+strip=1'" },
	{ "/p/x,methd=/p/copy", 1, "" },
	{ "/p/x,year=2020", 1, "" },
	{ "/p/x+keep=2h", 0, "; did you mean '/p/x::keep=2h'?" },
	{ "/p/x nested", 0, "; did you mean '/p/x::nested'?" },
	{ "/p/x shm", 0, "; did you mean '/p/x:shm'?" },
	{ "\"/p/x\"", 0, "; did you mean '/p/x'?" },
	{ "/p/a,/p/b", 0, "" },
	{ "/p/a", 0, "" },
	{ "/p/a:shm", 0, "" },
	{ "x=/p/a,y=/p/b", 0, "" }, /* seen failing: it was taken for a name with a comma */
	{ "x=/p/a,y=/p/b", 1, "" },
	{ "x='/p/a'", 0, "; did you mean 'x=/p/a'?" },
	{ "x.tar;y.zip", 0, "; a comma separates items, a semicolon belongs to one: for several, write 'x.tar,y.zip'" },
	{ "/p/a:shm,/p/x.tar; /p/y.zip", 1, "; a comma separates items, a semicolon belongs to one: for several, write '/p/x.tar,/p/y.zip'" },
	{ "x=a.tar b.tar", 0, "; a comma separates items, a blank belongs to one: for several, write 'x=a.tar,b.tar'" },
	{ "/p/x.tar;", 0, "; did you mean '/p/x.tar'?" },
	/* seen failing: nothing, and a comma in place of the blank */
	{ "data\\x.tar:shm", 0, "; a backslash is a part of the name here: did you mean 'data/x.tar:shm'?" },
	{ "/p/my\\ file\\(1).tar", 0, "; a backslash is a part of the name here: did you mean '/p/my file(1).tar'?" },
	{ "/p/a%2Cb.tar:shm", 0, "; %2C is read as ,: if it is a part of the name, write '/p/a%252Cb.tar:shm'" },
	{ "/p/run%5B1%5d", 0, "; %5B is read as [: if it is a part of the name, write '/p/run%255B1%255d'" },
	{ "/p/100%.tar", 0, "" },
	{ "/p/a%20b.tar", 0, "" },
	{ "https://h/x?secret,b.tar", 0, "" },
	{ "/p/a,https://h/x", 0, "" },
	{ "/p/a", 7, "" },
};
/* clang-format on */

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	while ((text = strstr(text, word))) {
		text++;
		n++;
	}
	return n;
}

static void test_a_slip_is_answered_by_the_item_that_was_meant(void **state)
{
	char wanted[700];

	for (size_t i = 0; i < ARRAY_SIZE(slips); i++) {
		_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
		struct error err = ERROR_INIT;
		int r = dataset_list_from_string(&list, slips[i].typed, &err);

		snprintf(wanted, sizeof(wanted), "; write '%s'", slips[i].meant);
		assert_int_equal(r, -EINVAL);
		if (!strstr(err.text, wanted))
			fail_msg("%s: %s\n wanted %s", slips[i].typed, err.text, wanted);
		if (count(err.text, "; write ") != 1)
			fail_msg("%s: two pieces of advice: %s", slips[i].typed, err.text);
		assert_int_equal(dataset_list_from_string(&list, slips[i].meant, NULL), 0);
	}
}

static void test_nothing_is_offered_that_is_not_known(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++) {
		struct dataset_list list = { 0 };
		struct error err = ERROR_INIT;

		assert_int_equal(dataset_list_from_string(&list, silent[i], &err), -EINVAL);
		if (strstr(err.text, "; write '") || strstr(err.text, "secret"))
			fail_msg("%s: %s", silent[i], err.text);
	}
}

static void test_a_missing_source_has_a_hint(void **state)
{
	char buf[1024], small[8];

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		dataset_slip_hint(hints[i].value, hints[i].index, buf, sizeof(buf));
		if (strcmp(buf, hints[i].hint))
			fail_msg("%s: %s", hints[i].value, buf);
		assert_true(strlen(dataset_slip_hint(hints[i].value, hints[i].index, small,
						     sizeof(small))) < 8);
	}
}

static void test_numbers_in_a_row_are_what_the_shell_made_of_braces(void **state)
{
	static const struct {
		const char *values[6];
		const char *set; /* NULL: none */
	} cases[] = {
		{ { "/p/s-0.tar:ssd", "/p/s-1.tar:ssd", "/p/s-2.tar:ssd", "/p/s-3.tar:ssd",
		    "/p/s-4.tar:ssd", "/p/s-5.tar:ssd" },
		  "/p/s-{0..5}.tar:ssd" },
		{ { "/p/08.tar", "/p/09.tar", "/p/10.tar" }, "/p/{08..10}.tar" },
		{ { "/p/a9", "/p/a10", "/p/a11" }, "/p/a{9..11}" },
		{ { "/p/a1x", "/p/a2x", "/p/a4x" }, NULL },
		{ { "/p/a1x", "/p/a2x" }, NULL }, /* two are what people mean */
		{ { "/p/train", "/p/val", "/p/test" }, NULL },
		{ { "/p/a", "/p/a", "/p/a" }, NULL },
		{ { "/p/99999999999", "/p/99999999998", "/p/99999999997" }, NULL },
		{ { "1", "2", "3" }, NULL },
	};
	char buf[64], small[4];
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (n = 0; n < 6 && cases[i].values[n]; n++)
			;
		assert_int_equal(dataset_find_sequence(cases[i].values, n, buf, sizeof(buf)),
				 cases[i].set != NULL);
		if (cases[i].set)
			assert_string_equal(buf, cases[i].set);
		assert_false(dataset_find_sequence(cases[i].values, n, small, sizeof(small)));
	}
	assert_false(dataset_find_sequence(NULL, 0, buf, sizeof(buf)));
}

/* Any text is answered, and what is offered reads. */
static void test_any_two_pieces_are_answered(void **state)
{
	static const char *const pieces[] = {
		"/p/x", ":",   "+", ",",  "shm",	 "strip=1",	  "nested",	"{",   "}",
		"=",	"%2C", " ", "\"", "include=*.a", "verify=sha256", "https://h/", "*.b", "1:2"
	};
	char text[256], buf[1024];

	for (unsigned seed = 1; seed < 20000; seed++) {
		unsigned x = seed * 2654435761u;
		struct dataset_list list = { 0 };
		struct error err = ERROR_INIT;

		text[0] = '\0';
		for (unsigned k = 0; k < 7; k++, x = x * 1103515245u + 12345u)
			strcat(text, pieces[(x >> 16) % ARRAY_SIZE(pieces)]);
		if (dataset_list_from_string(&list, text, &err) == 0)
			dataset_slip_hint(text, 0, buf, sizeof(buf));
		dataset_list_deinit(&list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slip_is_answered_by_the_item_that_was_meant),
		cmocka_unit_test(test_nothing_is_offered_that_is_not_known),
		cmocka_unit_test(test_a_missing_source_has_a_hint),
		cmocka_unit_test(test_numbers_in_a_row_are_what_the_shell_made_of_braces),
		cmocka_unit_test(test_any_two_pieces_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
