/* chat_input.c - see chat_input.h. Built on libedit's own interface, of which three things are used
 * beyond reading a line: a function for the sequence that opens bracketed paste, some for Ctrl-C
 * and Ctrl-Z (keys like others while a line is edited, not signals), and the history with its file.
 */
#define _POSIX_C_SOURCE 200809L
#include "chat_input.h"

#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "sample_files.h"

enum { HISTORY_LENGTH = 1000 };

/* How a line end looks inside a line: U+2424, SYMBOL FOR NEWLINE. */
static const char newline_sign[] = "\xe2\x90\xa4";
static const wchar_t newline_sign_wide[] = L"\x2424";

struct chat_input {
    FILE *terminal; /* owned where it is not stderr */
    EditLine *editor;
    History *history;
    char *history_path; /* NULL: nowhere to keep it */
    bool continues, left;
};

static void remember(chat_input *input, const char *line)
{
    HistEvent event;
    if (line[strspn(line, " \t")] == '\0') return;
    history(input->history, &event, H_ENTER, line);
    /* At once, since a program that runs for days may end in many ways. */
    if (input->history_path) history(input->history, &event, H_SAVE, input->history_path);
}

/* ---- Keys ----------------------------------------------------------------------------------- */

static chat_input *owner(EditLine *editor)
{
    chat_input *input = NULL;
    el_get(editor, EL_CLIENTDATA, &input);
    return input;
}

static char *prompt(EditLine *editor)
{
    static char first[] = "> ", next[] = ". ";
    return owner(editor)->continues ? next : first;
}

static void set_bracketed_paste(chat_input *input, bool on)
{
    fputs(on ? "\033[?2004h" : "\033[?2004l", input->terminal);
    fflush(input->terminal);
}

static unsigned char leave_line(EditLine *editor, int key)
{
    (void)key;
    owner(editor)->left = true;
    return CC_EOF;
}

/* Ctrl-Z: the shell must not find its terminal in the editor's modes; libedit sees to its part. */
static unsigned char suspend(EditLine *editor, int key)
{
    (void)key;
    set_bracketed_paste(owner(editor), false);
    raise(SIGTSTP);
    set_bracketed_paste(owner(editor), true);
    return CC_REDISPLAY;
}

static void insert_pasted(EditLine *editor, wchar_t c)
{
    const wchar_t one[] = {c, L'\0'};
    if (c == L'\r' || c == L'\n')
        el_winsertstr(editor, newline_sign_wide);
    else if (c >= L' ' || c == L'\t')
        el_winsertstr(editor, one);
}

/* Called behind the opening sequence: takes all up to the closing one. */
static unsigned char paste(EditLine *editor, int key)
{
    static const wchar_t end[] = L"\x1b[201~";
    (void)key;
    size_t matched = 0;
    wchar_t c = 0;
    while (end[matched] && el_wgetc(editor, &c) == 1) {
        if (c == end[matched]) {
            matched++;
            continue;
        }
        /* A false start of the closing sequence was text. Its first character occurs in it once. */
        for (size_t i = 0; i < matched; i++) insert_pasted(editor, end[i]);
        matched = c == end[0];
        if (!matched) insert_pasted(editor, c);
    }
    return CC_REFRESH;
}

static void bind_keys(EditLine *editor)
{
    static const char *const keys[][2] = {
        {"\\e[200~", "vklm-paste"},
        {"^C", "vklm-leave"},
        {"^Z", "vklm-suspend"},
        {"^R", "em-inc-search-prev"},
        {"\\e[H", "ed-move-to-beg"},
        {"\\e[F", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"},
        {"\\e[1;5C", "em-next-word"},
        {"\\e[1;5D", "ed-prev-word"},
    };
    el_set(editor, EL_EDITOR, "emacs");
    /* By the wide interface, which keeps these strings; the narrow one leaks its copies. */
    el_wset(editor, EL_ADDFN, L"vklm-paste", L"Insert pasted text", paste);
    el_wset(editor, EL_ADDFN, L"vklm-leave", L"Give up the line", leave_line);
    el_wset(editor, EL_ADDFN, L"vklm-suspend", L"Stop the program for now", suspend);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
    el_set(editor, EL_SETTY, "-d", "-isig", NULL);
}

/* ---- Reading -------------------------------------------------------------------------------- */

chat_input *input_open(const char *program)
{
    /* The editor reads characters by the locale; the plain one knows only ASCII. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    chat_input *input = must_realloc(NULL, sizeof *input);
    *input = (chat_input){.terminal = fopen("/dev/tty", "w"), .history_path = user_file(USER_STATE, "chat_history")};
    if (!input->terminal) input->terminal = stderr;
    input->history = history_init();
    input->editor = el_init(program, stdin, input->terminal, input->terminal);
    if (!input->history || !input->editor) {
        fprintf(stderr, "%s: out of memory\n", program);
        exit(1);
    }
    HistEvent event;
    history(input->history, &event, H_SETSIZE, HISTORY_LENGTH);
    history(input->history, &event, H_SETUNIQUE, 1);
    if (input->history_path) history(input->history, &event, H_LOAD, input->history_path);
    el_set(input->editor, EL_CLIENTDATA, input);
    el_set(input->editor, EL_PROMPT, prompt);
    el_set(input->editor, EL_SIGNAL, 1);
    el_set(input->editor, EL_HIST, history, input->history);
    bind_keys(input->editor);
    el_source(input->editor, NULL); /* the user's own .editrc comes last */
    return input;
}

void input_close(chat_input *input)
{
    el_end(input->editor);
    history_end(input->history);
    if (input->terminal != stderr) fclose(input->terminal);
    free(input->history_path);
    free(input);
}

/* Reads one line, without its end; NULL where there is none. */
static const char *read_line(chat_input *input, size_t *len)
{
    int n = 0;
    input->left = false;
    set_bracketed_paste(input, true);
    const char *line = el_gets(input->editor, &n);
    set_bracketed_paste(input, false);
    if (!line || n <= 0) {
        fputc('\n', input->terminal);
        return NULL;
    }
    *len = (size_t)n - (line[n - 1] == '\n');
    return line;
}

static void restore_newlines(sample_text *text)
{
    const size_t sign_len = sizeof newline_sign - 1;
    char *to = text->bytes;
    for (const char *from = text->bytes; *from;) {
        const bool is_sign = strncmp(from, newline_sign, sign_len) == 0;
        *to++ = is_sign ? '\n' : *from;
        from += is_sign ? sign_len : 1;
    }
    *to = '\0';
    text->len = (size_t)(to - text->bytes);
}

input_result input_read(chat_input *input, sample_text *message)
{
    message->len = 0;
    input->continues = false;
    do {
        size_t len = 0;
        const char *line = read_line(input, &len);
        if (!line) return input->left ? INPUT_LEFT : INPUT_END;
        input->continues = len > 0 && line[len - 1] == '\\';
        text_append(message, line, len - input->continues);
        if (input->continues) text_append(message, newline_sign, sizeof newline_sign - 1);
    } while (input->continues);
    remember(input, message->bytes);
    restore_newlines(message);
    return INPUT_MESSAGE;
}
