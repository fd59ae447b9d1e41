/* chat_input.h - messages typed at a terminal: line editing, history, several lines.
 *
 * A line that ends in a backslash goes on in the next. Text pasted with line ends stays one
 * message: while it is edited and in the history, a line end shows as the character U+2424 (NL in
 * one cell). The prompt goes to the terminal itself, so that standard output can be piped.
 */
#ifndef CHAT_INPUT_H
#define CHAT_INPUT_H

#include "sample_setup.h"

typedef struct chat_input chat_input;

typedef enum input_result {
    INPUT_MESSAGE,
    INPUT_LEFT, /* Ctrl-C: the line is given up */
    INPUT_END,  /* Ctrl-D, or the terminal is gone */
} input_result;

/* Never NULL. Without a writable place for it the history lives as long as the program. */
chat_input *input_open(const char *program);
void input_close(chat_input *input);

/* Reads one message into *message, whose old content is lost. */
input_result input_read(chat_input *input, sample_text *message);

#endif
