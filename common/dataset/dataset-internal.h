/*
 * dataset-internal: what the files dataset*.c share. Nobody else includes it.
 */
#pragma once

#include <stdio.h>

#include "common/dataset/dataset.h"
#include "common/util/error.h"

/* Reports a mistake of the user; a command that stops there has exit status 2. */
#define dataset_refuse(err, ...) error_exit(err, STAGE_EXIT_USAGE, EINVAL, __VA_ARGS__)

#define DATASET_SHOW_SIZE 128

/* Prepares a user's text for a message: cuts query strings and long texts. Returns buf. */
char *dataset_show(const char *text, char *buf, size_t size);

void dataset_deinit(struct dataset *d);

/* Parses one item and modifies it. d must be zeroed; it needs dataset_deinit() even after a
 * failure. */
int dataset_item_read(struct dataset *d, char *item, struct error *err);
/* Checks the consistency of a parsed or expanded item. Sets is_set. */
int dataset_item_check(struct dataset *d, struct error *err);
/* Reads a decoded DEST. */
int dataset_dest_read(struct dataset *d, const char *dest, struct error *err);
/* Returns whether DEST is a word, such as auto or shm, and not a path. */
bool dataset_dest_is_word(const char *text);
/* Does the same for text[0..n). */
bool dataset_dest_is_word_of(const char *text, size_t n);
/* Returns the word that a misspelt DEST probably means; NULL: none. */
const char *dataset_dest_nearest(const char *text);

/* Parses "a+b=c+d=e" and modifies it. */
int dataset_options_read(struct dataset *d, char *text, struct error *err);
/* Prints the options that differ from the default. Prints `first` before the first one, and "+"
 * before the others. */
void dataset_options_print(FILE *f, const struct dataset *d, const char *first);
bool dataset_options_are_default(const struct dataset *d);
/* Returns whether name is an option. *flagp: the option has no value. */
bool dataset_option_is_known(const char *name, size_t n, bool *flagp);
/* Returns the option with this name, or the one that a misspelt name probably means; NULL: none. */
const char *dataset_option_nearest(const char *name);
/* Does the same for a value, if the option's values are words. */
const char *dataset_option_nearest_value(const char *name, const char *value);
/* Checks subdir, which expansion may have changed. Removes trailing slashes. */
int dataset_subdir_check(char *subdir, struct error *err);

/* dataset-option-texts.c: parsers of options. They return 0, or -EINVAL: err has the reason, or it
 * is empty and the option's row has the correct form. */
int dataset_option_read_verify(struct dataset *d, char *value, struct error *err);
int dataset_option_read_subdir(struct dataset *d, char *value, struct error *err);
int dataset_option_read_include(struct dataset *d, char *value, struct error *err);
int dataset_option_read_exclude(struct dataset *d, char *value, struct error *err);

/* Reads the name of a profile in ~/.aws. Returns -EINVAL for an invalid name. */
int dataset_profile_read(struct dataset *d, const char *name);

/* Returns the byte for which a code such as "%2C" at the beginning of text stands, in a source;
 * NUL: text does not begin with a code. */
char dataset_code_to_byte(const char *text);

/* Decodes %2C %3A %2B %25 in place. */
void dataset_decode(char *text);
/* Writes text so that it can be decoded; commas inside {} are not encoded. */
void dataset_encode(FILE *f, const char *text);
/* Do the same for a source. Unless it is a web address, %2A %3F %5B %5D %7B %7D %24 are decoded,
 * too, and set `literal` or `expanded`. */
void dataset_source_decode(char *source, struct dataset *d);
void dataset_source_encode(FILE *f, const struct dataset *d, const char *source);
/* Returns whether each { has its }. */
bool dataset_braces_are_closed(const char *text);

/* Makes a valid NAME from text[0..n). */
void dataset_name_make_legal(const char *text, size_t n, char name[static DATASET_NAME_SIZE]);
/* Makes a NAME from the source. */
void dataset_name_derive(const struct dataset *d, char name[static DATASET_NAME_SIZE]);
/* Takes text[0..n) as NAME. If it is not valid, the error suggests a valid one. */
int dataset_name_read(struct dataset *d, const char *text, size_t n, struct error *err);
/* Gives unique names to the datasets for which the user gave none. Refuses a name that is given
 * twice. */
int dataset_names_make(struct dataset_list *list, struct error *err);

/* Returns the length of the item at text, which ends at the next comma outside {}. */
size_t dataset_item_length(const char *text);

/* dataset-slips.c: writes the item that the user probably meant, ready to be pasted. Returns 0, or
 * -ENOENT if no correction is known, or if the item may contain a secret. */
#define DATASET_SLIP_SIZE 640
int dataset_slip_correct(const char *text, char buf[static DATASET_SLIP_SIZE]);
/* Returns whether text is an item without a mistake. */
bool dataset_slip_is_item(const char *text);
/* Returns whether text begins with an option or a DEST that is spelt correctly. */
bool dataset_slip_is_option(const char *text);

/* dataset-slip-words.c: return the correct form of a word that was probably meant as a DEST, as the
 * key of an option, or as an option with its value. NULL: the word is not known. */
const char *dataset_slip_find_dest(const char *typed);
const char *dataset_slip_find_key(const char *typed);
const char *dataset_slip_find_flag(const char *typed);
#define DATASET_SLIP_VALUE_SIZE 512 /* longer values get no suggestion */
/* Replaces the value of key by the one that was probably meant. Returns false if this is not
 * possible ("no" as the value of a flag). */
bool dataset_slip_fix_value(const char *key, char value[static DATASET_SLIP_VALUE_SIZE]);
