/*
 * Preloaded into the supervisor: of the roles it executes again, the one that WRAP_ROLE names is run by another program.
 * WRAP_COMMAND is that program and its arguments, a space between; WRAP_PROGRAM the path of ours, that it is to run.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 60 };

/* argv is exeat role NAME INDEX [debug]. */
static void run_wrapped(char *command, char *program, char *const argv[], char *const envp[])
{
    char *words[WORDS_MAX + 1] = {NULL}, *save = NULL;
    size_t n = 0;

    for (char *word = strtok_r(command, " ", &save); word && n < WORDS_MAX / 2; word = strtok_r(NULL, " ", &save))
        words[n++] = word;
    words[n++] = program;
    for (size_t i = 1; argv[i] && n < WORDS_MAX; i++)
        words[n++] = argv[i];
    execve(words[0], words, envp);
}

/* The C library's, shadowed: proxy/spawn.c calls it between fork and exec. */
int fexecve(int fd, char *const argv[], char *const envp[])
{
    char *role = getenv("WRAP_ROLE"), *command = getenv("WRAP_COMMAND"), *program = getenv("WRAP_PROGRAM");

    if (role && command && program && strcmp(argv[2], role) == 0)
        run_wrapped(command, program, argv, envp);
    return execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}
