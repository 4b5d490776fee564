/*
 * elf-number: a number that a shared object carries under a name, read without loading the object.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Finds the 32 bits of the dynamic symbol `name`. data: a 64-bit object of this machine's byte
 * order. Returns 0; -ENOENT: there is no such symbol; -EINVAL: another kind of object, or a damaged
 * one. */
int elf_number_find(const void *data, size_t size, const char *name, uint32_t *valuep);
