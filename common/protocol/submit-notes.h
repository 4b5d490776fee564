/*
 * submit-notes: what the plugin notes in sbatch, and `stagectl submit --filter` reads and answers
 * (spank/cli-filter.h, client/submit-filter.h). The file's number stands in the environment. It has
 * records, each ended by a NUL: a letter, and what follows it.
 */
#pragma once

#define SUBMIT_NOTES_ENV "STAGE_SUBMIT_FD"
#define SUBMIT_NOTES_MAX_SIZE (16u << 20)

#define SUBMIT_NOTE_ENVIRONMENT 'e' /* the value of STAGE_DATA */
#define SUBMIT_NOTE_SCRIPT 's'	    /* a value in the script */
#define SUBMIT_NOTE_COMMAND_LINE 'c'
#define SUBMIT_NOTE_ANSWER '=' /* the value that replaces all others */
