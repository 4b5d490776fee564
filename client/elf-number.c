/* Each offset and length is from the file: nothing is looked at that get() has not measured. */
#include "client/elf-number.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define BYTE_ORDER_HERE (__BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB)

struct object {
	const char *data;
	size_t size;
	Elf64_Ehdr head;
};

/* Copies n bytes at offset, which may be unaligned. Returns -EINVAL beyond the end. */
static int get(const struct object *o, uint64_t offset, void *buf, size_t n)
{
	if (offset > o->size || o->size - offset < n)
		return -EINVAL;
	memcpy(buf, o->data + offset, n);
	return 0;
}

static int read_head(struct object *o)
{
	int r = get(o, 0, &o->head, sizeof(o->head));

	if (r < 0)
		return r;
	return memcmp(o->head.e_ident, ELFMAG, SELFMAG) ||
			       o->head.e_ident[EI_CLASS] != ELFCLASS64 ||
			       o->head.e_ident[EI_DATA] != BYTE_ORDER_HERE ||
			       o->head.e_shentsize != sizeof(Elf64_Shdr) ||
			       o->head.e_phentsize != sizeof(Elf64_Phdr)
		       ? -EINVAL
		       : 0;
}

static int get_section(const struct object *o, uint32_t i, Elf64_Shdr *s)
{
	return i >= o->head.e_shnum
		       ? -EINVAL
		       : get(o, o->head.e_shoff + (uint64_t)i * sizeof(*s), s, sizeof(*s));
}

/* Reads the number that would be at this address in the loaded object. */
static int read_at_address(const struct object *o, uint64_t address, uint32_t *valuep)
{
	Elf64_Phdr p;

	for (uint32_t i = 0; i < o->head.e_phnum; i++) {
		int r = get(o, o->head.e_phoff + (uint64_t)i * sizeof(p), &p, sizeof(p));

		if (r < 0)
			return r;
		if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
			return get(o, p.p_offset + (address - p.p_vaddr), valuep, sizeof(*valuep));
	}
	return -EINVAL;
}

static int find_in(const struct object *o, const Elf64_Shdr *symbols, const char *name,
		   uint32_t *valuep)
{
	size_t n = strlen(name) + 1;
	Elf64_Shdr strings;
	Elf64_Sym s;
	int r = get_section(o, symbols->sh_link, &strings);

	for (uint64_t i = 0; r == 0 && i < symbols->sh_size / sizeof(s); i++) {
		r = get(o, symbols->sh_offset + i * sizeof(s), &s, sizeof(s));
		if (r == 0 && s.st_shndx != SHN_UNDEF && strings.sh_offset <= o->size &&
		    s.st_name < o->size - strings.sh_offset &&
		    n <= o->size - strings.sh_offset - s.st_name &&
		    !memcmp(o->data + strings.sh_offset + s.st_name, name, n))
			return read_at_address(o, s.st_value, valuep);
	}
	return r < 0 ? r : -ENOENT;
}

int elf_number_find(const void *data, size_t size, const char *name, uint32_t *valuep)
{
	struct object o = { .data = data, .size = size };
	int r = read_head(&o);
	Elf64_Shdr s;

	for (uint32_t i = 0; r == 0 && i < o.head.e_shnum; i++) {
		r = get_section(&o, i, &s);
		if (r == 0 && s.sh_type == SHT_DYNSYM)
			return find_in(&o, &s, name, valuep);
	}
	return r < 0 ? r : -ENOENT;
}
