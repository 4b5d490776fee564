#include "client/elf-number.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

#define NUMBER 0x160508

/* The smallest object that has a number: loaded at BASE, with one dynamic symbol beside the empty
 * one. */
#define BASE 0x1000

struct object {
	Elf64_Ehdr head;
	Elf64_Phdr load;
	Elf64_Shdr sections[3]; /* none, symbols, strings */
	Elf64_Sym symbols[2];
	char strings[16];
	uint32_t number;
};

static struct object make(void)
{
	struct object o = {
		.head = { .e_phoff = offsetof(struct object, load),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 1,
			  .e_shoff = offsetof(struct object, sections),
			  .e_shentsize = sizeof(Elf64_Shdr),
			  .e_shnum = 3 },
		.load = { .p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof(struct object) },
		.sections = { [1] = { .sh_type = SHT_DYNSYM,
				      .sh_link = 2,
				      .sh_offset = offsetof(struct object, symbols),
				      .sh_size = sizeof(Elf64_Sym[2]) },
			      [2] = { .sh_type = SHT_STRTAB,
				      .sh_offset = offsetof(struct object, strings),
				      .sh_size = 16 } },
		.symbols = { [1] = { .st_name = 1,
				     .st_shndx = 1,
				     .st_value = BASE + offsetof(struct object, number) } },
		.strings = "\0plugin_version",
		.number = NUMBER,
	};

	memcpy(o.head.e_ident, ELFMAG, SELFMAG);
	o.head.e_ident[EI_CLASS] = ELFCLASS64;
	o.head.e_ident[EI_DATA] = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
	return o;
}

static void test_a_number_is_found_by_its_name(void **state)
{
	struct object o = make();
	uint32_t value = 0;

	assert_int_equal(0, elf_number_find(&o, sizeof(o), "plugin_version", &value));
	assert_int_equal(NUMBER, value);
	assert_int_equal(-ENOENT, elf_number_find(&o, sizeof(o), "plugin", &value));
	o.symbols[1].st_shndx = SHN_UNDEF; /* somebody else's */
	assert_int_equal(-ENOENT, elf_number_find(&o, sizeof(o), "plugin_version", &value));
	assert_int_equal(-EINVAL, elf_number_find("#!/bin/sh", 9, "plugin_version", &value));
}

/* A copy of exactly that size, so that reading past it shows in a build that looks. */
static void test_what_is_cut_or_changed_is_refused_or_read(void **state)
{
	struct object o = make();
	uint32_t value;

	for (size_t n = 0; n < offsetof(struct object, number) + sizeof(o.number); n++) {
		char *copy = malloc(n ? n : 1);

		memcpy(copy, &o, n);
		assert_true(elf_number_find(copy, n, "plugin_version", &value) < 0);
		free(copy);
	}
	for (size_t i = 0; i < sizeof(o); i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			char *copy = malloc(sizeof(o));

			memcpy(copy, &o, sizeof(o));
			copy[i] ^= (char)(1 << bit);
			elf_number_find(copy, sizeof(o), "plugin_version", &value);
			free(copy);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_number_is_found_by_its_name),
		cmocka_unit_test(test_what_is_cut_or_changed_is_refused_or_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
