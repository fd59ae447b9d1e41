/* sample_files.h - files by names in UTF-8 on every system; those that the programs keep for the user between runs,
 * and how they are written. */
#ifndef SAMPLE_FILES_H
#define SAMPLE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum user_folder {
    USER_STATE, /* $XDG_STATE_HOME or ~/.local/state */
    USER_CACHE, /* $XDG_CACHE_HOME or ~/.cache */
} user_folder; /* on Windows both %LOCALAPPDATA% */

/* As a help text names them. */
#ifdef _WIN32
#define USER_STATE_NAME "%LOCALAPPDATA%/vklm"
#define USER_CACHE_NAME "%LOCALAPPDATA%/vklm"
#else
#define USER_STATE_NAME "${XDG_STATE_HOME:-~/.local/state}/vklm"
#define USER_CACHE_NAME "${XDG_CACHE_HOME:-~/.cache}/vklm"
#endif

/* fopen; for writing in binary mode ("wb", "wx"), so that the bytes are the same everywhere. */
FILE *file_open(const char *path, const char *mode);

/* Whether a person sits at it. */
bool is_terminal(FILE *file);

/* The path of vklm/NAME there, its folders made for their owner only. From malloc; NULL where there is no place for
 * it. */
char *user_file(user_folder folder, const char *name);

/* Writes a file under another name and renames it, so that whoever reads it sees the old or the new one, whole.
 * False where that is not possible; the old one is there then. */
bool file_replace(const char *path, const void *bytes, size_t len);

#ifdef _WIN32
/* Both from malloc. What is no Unicode becomes its sign for that, U+FFFD. */
char *utf8_from_wide(const wchar_t *text);
wchar_t *wide_from_utf8(const char *text);
#endif

#endif
