/* sample_files.h - files that the programs keep for the user between runs, and how they are written. */
#ifndef SAMPLE_FILES_H
#define SAMPLE_FILES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum user_folder {
    USER_STATE, /* $XDG_STATE_HOME or ~/.local/state */
    USER_CACHE, /* $XDG_CACHE_HOME or ~/.cache */
} user_folder; /* on Windows both %LOCALAPPDATA% */

/* The path of vklm/NAME there, its folders made for their owner only. From malloc; NULL where there is no place for
 * it. */
char *user_file(user_folder folder, const char *name);

/* Writes a file under another name and renames it, so that whoever reads it sees the old or the new one, whole.
 * False where that is not possible; the old one is there then. */
bool file_replace(const char *path, const void *bytes, size_t len);

#endif
