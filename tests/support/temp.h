/* temp.h - a folder of a test's own and the files in it, by names in UTF-8, on any system. */
#ifndef TEST_TEMP_H
#define TEST_TEMP_H

#include <stdint.h>
#include <stdio.h>

enum { TEMP_FOLDER_SIZE = 300 };

/* Makes an empty folder and gives its path. */
void temp_folder(char path[TEMP_FOLDER_SIZE]);

/* Removes it, empty again. */
void temp_folder_remove(const char *path);

/* The path of a file of this process outside of them. */
void temp_path(char path[TEMP_FOLDER_SIZE], const char *name);

FILE *temp_file(const char *path, const char *mode);
void temp_file_remove(const char *path);

/* An open file as VKLM_SOURCE_FILE takes it, a descriptor or a HANDLE; and one that is none, the end of a pipe. */
intptr_t temp_source(const char *path);
intptr_t temp_source_pipe(void);
void temp_source_close(intptr_t file);
/* Where its next read would begin. */
uint64_t temp_source_position(intptr_t file);

#endif
