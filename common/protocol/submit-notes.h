/*
 * submit-notes: the file by which the plugin in sbatch passes the user's values to `stagectl submit
 * --filter`, and gets its answer (spank/cli-filter.h, client/submit-filter.h). An environment
 * variable has the number of its descriptor. Each record is a letter and a text, and ends with a
 * NUL.
 */
#pragma once

#define SUBMIT_NOTES_ENV "STAGE_SUBMIT_FD"
#define SUBMIT_NOTES_MAX_SIZE (16u << 20)

#define SUBMIT_NOTE_ENVIRONMENT 'e' /* the value of STAGE_DATA */
#define SUBMIT_NOTE_SCRIPT 's'	    /* a value in the script */
#define SUBMIT_NOTE_COMMAND_LINE 'c'
#define SUBMIT_NOTE_ANSWER '=' /* the value that replaces all others */
