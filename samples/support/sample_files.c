/* sample_files.c - see sample_files.h. By the XDG rules, and with Windows in mind. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "sample_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#include <process.h>
#define mkdir(path, mode) _mkdir(path)
#define getpid _getpid
#else
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "sample_setup.h"

static char *join(const char *folder, const char *between, const char *name)
{
    const size_t size = strlen(folder) + strlen(between) + strlen(name) + 1;
    char *path = must_realloc(NULL, size);
    snprintf(path, size, "%s%s%s", folder, between, name);
    return path;
}

/* Makes the folders above a file; false where that is not possible. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return false;
    }
    return true;
}

char *user_file(user_folder folder, const char *name)
{
    char *path = NULL;
#ifdef _WIN32
    const char *local = getenv("LOCALAPPDATA");
    (void)folder;
    if (local && local[0]) path = join(local, "/vklm/", name);
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
    snprintf(ending, sizeof ending, ".%ld.part", (long)getpid());
    char *part = join(path, ending, "");
    FILE *file = fopen(part, "wb");
    bool good = file && fwrite(bytes, 1, len, file) == len;
    if (file) good = fclose(file) == 0 && good;
#ifdef _WIN32
    if (good) remove(path); /* rename does not replace there */
#endif
    good = good && rename(part, path) == 0;
    if (!good && file) remove(part);
    free(part);
    return good;
}
