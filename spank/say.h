/*
 * say: prints a sentence for the user of sbatch, srun or salloc.
 */
#pragma once

/* Prints the sentence as an error and ends the client with status 1. */
void say_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Prints the sentence and returns. */
void say_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
