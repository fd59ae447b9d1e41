/* temp.h - a folder of a test's own, on any system. */
#ifndef TEST_TEMP_H
#define TEST_TEMP_H

enum { TEMP_FOLDER_SIZE = 300 };

/* Makes an empty folder and gives its path. */
void temp_folder(char path[TEMP_FOLDER_SIZE]);

/* Removes it, empty again. */
void temp_folder_remove(const char *path);

#endif
