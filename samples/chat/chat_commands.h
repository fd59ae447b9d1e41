/* chat_commands.h - the lines that begin with a slash. */
#ifndef CHAT_COMMANDS_H
#define CHAT_COMMANDS_H

#include "chat_conversation.h"

typedef enum command_result {
    COMMAND_DONE,
    COMMAND_REPLY, /* the last message wants a reply */
    COMMAND_QUIT,
} command_result;

/* Runs "/name argument"; says so on stderr where there is no such command. */
command_result command_run(conversation *c, const char *line);

/* One line a command, on stderr. */
void commands_print(void);

#endif
