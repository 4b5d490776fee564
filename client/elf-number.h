/*
 * elf-number: a number that a shared object carries under a name, read without loading the object.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The 32 bits that the dynamic symbol name of a 64-bit object of this machine's byte order stands
 * for. 0, or -ENOENT: there is no such symbol, -EINVAL: not such an object, or a damaged one.
 */
int elf_number_find(const void *data, size_t size, const char *name, uint32_t *valuep);
