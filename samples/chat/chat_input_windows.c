/* chat_input_windows.c - see chat_input.h. The console itself edits the line and remembers earlier ones; it gives
 * and takes UTF-16. Ctrl-C at the prompt makes the reading end with nothing. */
#include "chat_input.h"

#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "chat_interrupt.h"

enum { END_KEY = 0x1a }; /* Ctrl-Z, as the first of a line */

struct chat_input {
    HANDLE keys, screen;
};

static HANDLE open_console(const char *program, const wchar_t *name)
{
    const HANDLE console =
        CreateFileW(name, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
    if (console == INVALID_HANDLE_VALUE) {
        fprintf(stderr, "%s: there is no console\n", program);
        exit(1);
    }
    return console;
}

chat_input *input_open(const char *program)
{
    chat_input *input = must_realloc(NULL, sizeof *input);
    *input = (chat_input){open_console(program, L"CONIN$"), open_console(program, L"CONOUT$")};
    return input;
}

void input_close(chat_input *input)
{
    CloseHandle(input->keys);
    CloseHandle(input->screen);
    free(input);
}

/* Ctrl-C is told of on a thread of its own, which may come late. */
static bool was_interrupted(bool expected)
{
    for (int ms = 0; expected && ms < 1000 && !*interrupt_flag(); ms++) Sleep(1);
    return interrupt_end();
}

/* Reads one line into *line, without its end and ended by a zero. */
static input_result read_line(chat_input *input, const wchar_t *prompt, sample_text *line)
{
    wchar_t part[512];
    DWORD n = 0;
    bool ended = false, good = true;
    line->len = 0;
    WriteConsoleW(input->screen, prompt, (DWORD)wcslen(prompt), &n, NULL);
    interrupt_begin(NULL);
    while (good && !ended) {
        SetLastError(0);
        good = ReadConsoleW(input->keys, part, 512, &n, NULL) && n > 0;
        ended = good && part[n - 1] == L'\n';
        if (good) text_append(line, (const char *)part, n * sizeof *part);
    }
    if (was_interrupted(!good && GetLastError() == ERROR_OPERATION_ABORTED)) return INPUT_LEFT;
    if (!good) return INPUT_END;
    wchar_t *wide = (wchar_t *)(void *)line->bytes;
    size_t len = line->len / sizeof *wide;
    while (len > 0 && (wide[len - 1] == L'\n' || wide[len - 1] == L'\r')) len--;
    line->len = len * sizeof *wide;
    const wchar_t end = L'\0';
    text_append(line, (const char *)&end, sizeof end);
    return ((wchar_t *)(void *)line->bytes)[0] == END_KEY ? INPUT_END : INPUT_MESSAGE;
}

input_result input_read(chat_input *input, sample_text *message)
{
    sample_text line = {0};
    input_result result;
    bool continues = false;
    message->len = 0;
    do {
        result = read_line(input, continues ? L". " : L"> ", &line);
        if (result != INPUT_MESSAGE) break;
        char *text = utf8_from_wide((const wchar_t *)(void *)line.bytes);
        const size_t len = strlen(text);
        continues = len > 0 && text[len - 1] == '\\';
        text_append(message, text, len - continues);
        if (continues) text_append(message, "\n", 1);
        free(text);
    } while (continues);
    free(line.bytes);
    return result;
}
