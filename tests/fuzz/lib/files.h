/* A directory in memory for targets that read files. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "base/slice.h"

/* Made at the first call, removed at exit. */
const char *files_directory(void);
/* "NAME" in it; borrowed until the next call. */
const char *files_path(const char *name);
/* Write a file of it anew. */
void files_put(const char *name, struct slice bytes);
/* Remove everything in it. */
void files_clear(void);
/* Remove all files of a directory in it but the last by name. */
void files_keep_last(const char *name);

#endif
