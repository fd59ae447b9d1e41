/* chat_input.h - messages typed at a terminal: line editing, history, several lines.
 *
 * A line that ends in a backslash goes on in the next. Text pasted with line ends stays one
 * message: while it is edited and in the history, a line end shows as the character U+2424 (NL in
 * one cell). The prompt goes to the terminal itself, so that standard output can be piped.
 * On Windows (chat_input_windows.c) the console edits the line and keeps the history, and each pasted
 * line is a message of its own.
 */
#ifndef CHAT_INPUT_H
#define CHAT_INPUT_H

#include "sample_setup.h"

/* For help texts. */
#ifdef _WIN32
#define INPUT_LEAVE_KEY "Ctrl-Z and Enter"
#define INPUT_PASTE_HELP ""
#define INPUT_FILES_HELP ""
#else
#define INPUT_LEAVE_KEY "Ctrl-D"
#define INPUT_PASTE_HELP ", and pasted text may have many lines"
#define INPUT_FILES_HELP                                                                           \
    "    " USER_STATE_NAME "/chat_history   what was typed\n"                                      \
    "    ~/.editrc   keys, as for any libedit program\n"
#endif

typedef struct chat_input chat_input;

typedef enum input_result {
    INPUT_MESSAGE,
    INPUT_LEFT, /* Ctrl-C: the line is given up */
    INPUT_END,  /* INPUT_LEAVE_KEY, or the terminal is gone */
} input_result;

/* Never NULL. Without a writable place for it the history lives as long as the program. */
chat_input *input_open(const char *program);
void input_close(chat_input *input);

/* Reads one message into *message, whose old content is lost. */
input_result input_read(chat_input *input, sample_text *message);

#endif
