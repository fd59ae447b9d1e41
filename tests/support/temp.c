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
#else
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
#endif
