/* temp.c - see temp.h. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include "support/temp.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32)
#include <windows.h>

void temp_folder(char path[TEMP_FOLDER_SIZE])
{
    char base[MAX_PATH + 1];
    ck_assert(GetTempPathA(sizeof base, base) > 0);
    for (unsigned n = 0;; n++) {
        snprintf(path, TEMP_FOLDER_SIZE, "%svklm-test-%lu-%u", base, GetCurrentProcessId(), n);
        if (CreateDirectoryA(path, NULL)) return;
        ck_assert_msg(GetLastError() == ERROR_ALREADY_EXISTS, "%s cannot be made", path);
    }
}

void temp_folder_remove(const char *path)
{
    RemoveDirectoryA(path);
}

void temp_path(char path[TEMP_FOLDER_SIZE], const char *name)
{
    char base[MAX_PATH + 1];
    ck_assert(GetTempPathA(sizeof base, base) > 0);
    snprintf(path, TEMP_FOLDER_SIZE, "%svklm-%lu-%s", base, GetCurrentProcessId(), name);
}

/* So marked that it may have more than 260 characters. */
static const wchar_t *wide(const char *path)
{
    static wchar_t text[4 + 2 * TEMP_FOLDER_SIZE] = L"\\\\?\\";
    ck_assert(MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, text + 4, 2 * TEMP_FOLDER_SIZE) > 0);
    for (wchar_t *at = text; *at; at++)
        if (*at == L'/') *at = L'\\';
    return text;
}

FILE *temp_file(const char *path, const char *mode)
{
    wchar_t wide_mode[8] = {0};
    for (int i = 0; i < 7 && mode[i]; i++) wide_mode[i] = (wchar_t)mode[i];
    return _wfopen(wide(path), wide_mode);
}

void temp_file_remove(const char *path)
{
    DeleteFileW(wide(path));
}

/* As one who may rename the file next. */
intptr_t temp_source(const char *path)
{
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_DELETE;
    return (intptr_t)CreateFileW(wide(path), GENERIC_READ | DELETE, share, NULL, OPEN_EXISTING, 0, NULL);
}

intptr_t temp_source_pipe(void)
{
    HANDLE reading, writing;
    ck_assert(CreatePipe(&reading, &writing, NULL, 0));
    CloseHandle(writing);
    return (intptr_t)reading;
}

void temp_source_close(intptr_t file)
{
    CloseHandle((HANDLE)file);
}

uint64_t temp_source_position(intptr_t file)
{
    LARGE_INTEGER at = {.QuadPart = -1};
    ck_assert(SetFilePointerEx((HANDLE)file, (LARGE_INTEGER){0}, &at, FILE_CURRENT));
    return (uint64_t)at.QuadPart;
}
#else
#include <fcntl.h>
#include <unistd.h>

void temp_folder(char path[TEMP_FOLDER_SIZE])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, TEMP_FOLDER_SIZE, "%s/vklm-test-XXXXXX", base ? base : "/tmp");
    ck_assert_msg(mkdtemp(path) != NULL, "%s cannot be made", path);
}

void temp_folder_remove(const char *path)
{
    rmdir(path);
}

void temp_path(char path[TEMP_FOLDER_SIZE], const char *name)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, TEMP_FOLDER_SIZE, "%s/vklm-%ld-%s", base ? base : "/tmp", (long)getpid(), name);
}

FILE *temp_file(const char *path, const char *mode)
{
    return fopen(path, mode);
}

void temp_file_remove(const char *path)
{
    remove(path);
}

intptr_t temp_source(const char *path)
{
    return open(path, O_RDONLY);
}

intptr_t temp_source_pipe(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[1]);
    return ends[0];
}

void temp_source_close(intptr_t file)
{
    close((int)file);
}

uint64_t temp_source_position(intptr_t file)
{
    return (uint64_t)lseek((int)file, 0, SEEK_CUR);
}
#endif
