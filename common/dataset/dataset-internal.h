/*
 * dataset-internal: what the files dataset*.c share. Nobody else includes it.
 */
#pragma once

#include <stdio.h>

#include "common/dataset/dataset.h"
#include "common/util/error.h"

/* A user's mistake: exit status 2 where a command ends with it. */
#define dataset_refuse(err, ...) error_exit(err, STAGE_EXIT_USAGE, EINVAL, __VA_ARGS__)

#define DATASET_SHOW_SIZE 128

/* A text of the user's for a message: query strings cut, long texts cut. Returns buf. */
char *dataset_show(const char *text, char *buf, size_t size);

void dataset_deinit(struct dataset *d);

/* Reads one item (consumed: it is cut up). d is zeroed; on failure it still needs
 * dataset_deinit(). */
int dataset_item_read(struct dataset *d, char *item, struct error *err);
/* Checks whether the parsed (or expanded) item is possible. Sets is_set. */
int dataset_item_check(struct dataset *d, struct error *err);
/* Reads DEST, decoded. */
int dataset_dest_read(struct dataset *d, const char *dest, struct error *err);
/* auto, shm and the like, as opposed to a path? */
bool dataset_dest_is_word(const char *text);
/* The same of text[0..n). */
bool dataset_dest_is_word_of(const char *text, size_t n);
/* The word for a DEST that text was probably meant to be; NULL: none. */
const char *dataset_dest_nearest(const char *text);

/* "a+b=c+d=e" (consumed). */
int dataset_options_read(struct dataset *d, char *text, struct error *err);
/* Prints the options that are not the default. The text `first` is before the first one, "+" before
 * the others. */
void dataset_options_print(FILE *f, const struct dataset *d, const char *first);
bool dataset_options_are_default(const struct dataset *d);
/* Is it the name of an option? *flagp: one without a value. */
bool dataset_option_is_known(const char *name, size_t n, bool *flagp);
/* The option whose name this is, or was probably meant to be; NULL: none. */
const char *dataset_option_nearest(const char *name);
/* The same of a value, of an option whose values are words. */
const char *dataset_option_nearest_value(const char *name, const char *value);
/* Checks subdir, which expansion may have changed; takes trailing slashes away. */
int dataset_subdir_check(char *subdir, struct error *err);

/* dataset-option-texts.c: parsers of options. 0; -EINVAL: err has the reason, or the option's row
 * has the correct form. */
int dataset_option_read_verify(struct dataset *d, char *value, struct error *err);
int dataset_option_read_subdir(struct dataset *d, char *value, struct error *err);
int dataset_option_read_include(struct dataset *d, char *value, struct error *err);
int dataset_option_read_exclude(struct dataset *d, char *value, struct error *err);

/* A name as ~/.aws has it, or -EINVAL. */
int dataset_profile_read(struct dataset *d, const char *name);

/* Decodes %2C %3A %2B %25 in place. */
void dataset_decode(char *text);
/* Writes text so that decoding gives it back; commas inside {} stay. */
void dataset_encode(FILE *f, const char *text);
/* The same of a source that is no http address: %2A %3F %5B %5D %7B %7D %24 are decoded too, and
 * make it literal or expanded. */
void dataset_source_decode(char *source, struct dataset *d);
void dataset_source_encode(FILE *f, const struct dataset *d, const char *source);
/* Does every { have its } ? */
bool dataset_braces_are_closed(const char *text);

/* A legal NAME made from text[0..n). */
void dataset_name_make_legal(const char *text, size_t n, char name[static DATASET_NAME_SIZE]);
/* NAME made from the source alone. */
void dataset_name_derive(const struct dataset *d, char name[static DATASET_NAME_SIZE]);
/* Takes text[0..n) as NAME or refuses it with one that would be legal. */
int dataset_name_read(struct dataset *d, const char *text, size_t n, struct error *err);
/* Gives a unique name to all that have none given; refuses the same given twice. */
int dataset_names_make(struct dataset_list *list, struct error *err);

/* Bytes of the item at text: up to the next comma outside {}. */
size_t dataset_item_length(const char *text);

/*
 * dataset-slips.c: the item that text was probably meant to be, ready to paste, to buf.
 * 0; -ENOENT: nothing better than text is known, or it may have a secret.
 */
#define DATASET_SLIP_SIZE 640
int dataset_slip_correct(const char *text, char buf[static DATASET_SLIP_SIZE]);

/* dataset-slip-words.c: the correct form of a word that was probably meant as a DEST, as the key of
 * an option, or as an option with its value. NULL: the word is not known. */
const char *dataset_slip_find_dest(const char *typed);
const char *dataset_slip_find_key(const char *typed);
const char *dataset_slip_find_flag(const char *typed);
#define DATASET_SLIP_VALUE_SIZE 512 /* of an item; a longer one gets no suggestion */
/* Replaces the value of key by the one that was probably meant. false: this is not possible (a flag
 * with "no"). */
bool dataset_slip_fix_value(const char *key, char value[static DATASET_SLIP_VALUE_SIZE]);
