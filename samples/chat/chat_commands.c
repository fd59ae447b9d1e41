/* chat_commands.c - see chat_commands.h. One table holds the commands and their help. What they say
 * goes to stderr: standard output is for replies. */
#include "chat_commands.h"

#include <errno.h>
#include <string.h>

#include "chat_input.h"

static command_result help(conversation *c, const char *argument)
{
    (void)c;
    (void)argument;
    commands_print();
    return COMMAND_DONE;
}

static command_result start_anew(conversation *c, const char *argument)
{
    (void)argument;
    conversation_clear(c);
    fprintf(stderr, "A new conversation.\n");
    return COMMAND_DONE;
}

static command_result set_system(conversation *c, const char *argument)
{
    if (c->raw) {
        fprintf(stderr, "Plain text has no system prompt.\n");
    } else if (argument[0] == '\0') {
        const char *text = conversation_system(c);
        fprintf(stderr, "%s%s\n", text ? "The system prompt: " : "There is no system prompt.",
                text ? text : "");
    } else {
        conversation_set_system(c, argument);
        fprintf(stderr, "The system prompt is set; it counts from the next message on.\n");
    }
    return COMMAND_DONE;
}

static command_result regenerate(conversation *c, const char *argument)
{
    (void)argument;
    if (conversation_drop_reply(c)) return COMMAND_REPLY;
    fprintf(stderr, "There is no reply yet.\n");
    return COMMAND_DONE;
}

static command_result undo(conversation *c, const char *argument)
{
    (void)argument;
    fprintf(stderr, conversation_drop_exchange(c) ? "The last message and its reply are gone.\n"
                                                  : "There is nothing to undo.\n");
    return COMMAND_DONE;
}

static command_result say_stats(conversation *c, const char *argument)
{
    (void)argument;
    conversation_say_stats(c);
    return COMMAND_DONE;
}

static bool names_file(const char *command, const char *argument)
{
    if (argument[0] == '\0') fprintf(stderr, "%s needs the name of a file.\n", command);
    return argument[0] != '\0';
}

static command_result save(conversation *c, const char *argument)
{
    if (names_file("/save", argument)) conversation_save(c, argument);
    return COMMAND_DONE;
}

static command_result load(conversation *c, const char *argument)
{
    if (names_file("/load", argument)) conversation_load(c, argument);
    return COMMAND_DONE;
}

static command_result export_text(conversation *c, const char *argument)
{
    if (!names_file("/export", argument)) return COMMAND_DONE;
    FILE *file = file_open(argument, "wx"); /* x: a typing slip must not cost a file */
    bool good = file != NULL;
    for (size_t i = 0; good && i < c->n; i++)
        good = fprintf(file, "%s[%s]\n%s\n", i ? "\n" : "", c->messages[i].role,
                       c->messages[i].content) > 0;
    if (file) good = fclose(file) == 0 && good;
    if (good)
        fprintf(stderr, "%zu messages are written to %s.\n", c->n, argument);
    else
        fprintf(stderr, "%s cannot be written: %s.\n", argument, strerror(errno));
    return COMMAND_DONE;
}

static command_result quit(conversation *c, const char *argument)
{
    (void)c;
    (void)argument;
    return COMMAND_QUIT;
}

static const struct command {
    const char *name, *argument, *help;
    command_result (*run)(conversation *c, const char *argument);
} commands[] = {
    {"/help", "", "list the commands", help},
    {"/new", "", "start a new conversation; the system prompt stays", start_anew},
    {"/system", "TEXT", "set the system prompt; without TEXT: show it", set_system},
    {"/regen", "", "forget the last reply and write another", regenerate},
    {"/undo", "", "forget the last message and its reply", undo},
    {"/stats", "", "speed of the last reply, context and memory", say_stats},
    {"/save", "FILE", "keep the conversation in a file, with all that was read", save},
    {"/load", "FILE", "go on with a conversation that /save has kept", load},
    {"/export", "FILE", "write the conversation to a new text file", export_text},
    {"/quit", "", "leave, as " INPUT_LEAVE_KEY " does", quit},
};

void commands_print(void)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stderr, "  %-8s %-5s %s\n", commands[i].name, commands[i].argument,
                commands[i].help);
    fprintf(stderr, "A line that ends in \\ goes on in the next. Ctrl-C stops a reply.\n"
                    "A blank in front sends a line that begins with / as a message.\n");
}

command_result command_run(conversation *c, const char *line)
{
    const size_t name_len = strcspn(line, " \t\n");
    const char *argument = line + name_len + strspn(line + name_len, " \t\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == name_len && memcmp(commands[i].name, line, name_len) == 0)
            return commands[i].run(c, argument);
    fprintf(stderr,
            "There is no command %.*s; /help lists them. To send the line, put a blank in front.\n",
            (int)name_len, line);
    return COMMAND_DONE;
}
