/* sample_files.c - see sample_files.h. By the XDG rules, or as Windows has it. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "sample_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>
#else
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "sample_setup.h"

/* ---- The two systems ------------------------------------------------------------------------ */

#ifdef _WIN32
char *utf8_from_wide(const wchar_t *text)
{
    const int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *utf8 = must_realloc(NULL, (size_t)size + 1);
    utf8[0] = '\0';
    WideCharToMultiByte(CP_UTF8, 0, text, -1, utf8, size, NULL, NULL);
    return utf8;
}

wchar_t *wide_from_utf8(const char *text)
{
    const int size = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = must_realloc(NULL, ((size_t)size + 1) * sizeof *wide);
    wide[0] = L'\0';
    MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, size);
    return wide;
}

FILE *file_open(const char *path, const char *mode)
{
    wchar_t *wide_path = wide_from_utf8(path), *wide_mode = wide_from_utf8(mode);
    FILE *file = NULL;
    if (strchr(mode, 'x')) { /* older C libraries there know no x */
        const int number = _wopen(wide_path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE);
        if (number >= 0) file = _fdopen(number, "wb");
    } else {
        file = _wfopen(wide_path, wide_mode);
    }
    free(wide_path);
    free(wide_mode);
    return file;
}

/* _isatty says yes to every device, NUL too. */
bool is_terminal(FILE *file)
{
    DWORD mode = 0;
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(file)), &mode) != 0;
}

static bool make_folder(const char *path)
{
    wchar_t *wide = wide_from_utf8(path);
    const bool made = CreateDirectoryW(wide, NULL) || GetLastError() == ERROR_ALREADY_EXISTS;
    free(wide);
    return made;
}

static bool move_over(const char *from, const char *to)
{
    wchar_t *wide_from = wide_from_utf8(from), *wide_to = wide_from_utf8(to);
    const bool moved = MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING) != 0;
    if (!moved) DeleteFileW(wide_from);
    free(wide_from);
    free(wide_to);
    return moved;
}

static unsigned long process_number(void)
{
    return GetCurrentProcessId();
}
#else
FILE *file_open(const char *path, const char *mode)
{
    return fopen(path, mode);
}

bool is_terminal(FILE *file)
{
    return isatty(fileno(file)) != 0;
}

static bool make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool move_over(const char *from, const char *to)
{
    const bool moved = rename(from, to) == 0;
    if (!moved) remove(from);
    return moved;
}

static unsigned long process_number(void)
{
    return (unsigned long)getpid();
}
#endif

/* ---- The user's files ----------------------------------------------------------------------- */

static char *join(const char *folder, const char *between, const char *name)
{
    const size_t size = strlen(folder) + strlen(between) + strlen(name) + 1;
    char *path = must_realloc(NULL, size);
    snprintf(path, size, "%s%s%s", folder, between, name);
    return path;
}

/* Makes the folders of vklm above a file; false where that is not possible. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = make_folder(path);
        *slash = '/';
        if (!made) return false;
    }
    return true;
}

char *user_file(user_folder folder, const char *name)
{
    char *path = NULL;
#ifdef _WIN32
    const wchar_t *wide = _wgetenv(L"LOCALAPPDATA");
    char *local = wide && wide[0] ? utf8_from_wide(wide) : NULL;
    (void)folder;
    if (local) path = join(local, "/vklm/", name);
    free(local);
#else
    const char *xdg = getenv(folder == USER_STATE ? "XDG_STATE_HOME" : "XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *below_home = folder == USER_STATE ? "/.local/state/vklm/" : "/.cache/vklm/";
    /* The XDG rules: a relative path there counts as none. */
    if (xdg && xdg[0] == '/') path = join(xdg, "/vklm/", name);
    else if (home && home[0] == '/') path = join(home, below_home, name);
#endif
    if (path && make_folders(path)) return path;
    free(path);
    return NULL;
}

bool file_replace(const char *path, const void *bytes, size_t len)
{
    char ending[32];
    snprintf(ending, sizeof ending, ".%lu.part", process_number());
    char *part = join(path, ending, "");
    FILE *file = file_open(part, "wb");
    bool good = file && fwrite(bytes, 1, len, file) == len;
    if (file) good = fclose(file) == 0 && good;
    if (good) good = move_over(part, path);
    else if (file) remove(part);
    free(part);
    return good;
}
