/* sample_windows.c - where programs start on Windows: arguments in UTF-8, as everywhere else, and a console that
 * takes UTF-8 and the few escape sequences of the programs. Empty on other systems. */
#ifdef _WIN32
#include "sample_files.h"

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

#include "sample_setup.h"

int main(int argc, char **argv);
int wmain(int argc, wchar_t **wide);

static UINT console_before;

static void restore_console(void)
{
    SetConsoleOutputCP(console_before);
}

static void allow_escapes(DWORD which)
{
    DWORD mode = 0;
    const HANDLE console = GetStdHandle(which);
    if (GetConsoleMode(console, &mode)) SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

int wmain(int argc, wchar_t **wide)
{
    char **argv = must_realloc(NULL, ((size_t)argc + 1) * sizeof *argv);
    for (int i = 0; i < argc; i++) argv[i] = utf8_from_wide(wide[i]);
    argv[argc] = NULL;
    console_before = GetConsoleOutputCP();
    if (console_before && SetConsoleOutputCP(CP_UTF8)) atexit(restore_console);
    allow_escapes(STD_OUTPUT_HANDLE);
    allow_escapes(STD_ERROR_HANDLE);
    /* Lines end as they do elsewhere, and text passes byte for byte. */
    (void)_setmode(_fileno(stdout), _O_BINARY);
    (void)_setmode(_fileno(stderr), _O_BINARY);
    return main(argc, argv);
}
#else
typedef int sample_windows_has_no_wmain; /* C wants something in a file */
#endif
