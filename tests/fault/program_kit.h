/* program_kit: runs the program in a folder with files of its own. For tests of whole commands. */
#ifndef RETAIN_TESTS_PROGRAM_KIT_H
#define RETAIN_TESTS_PROGRAM_KIT_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void shell(const char *format, ...)
{
    char command[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) == 0) return;
    fprintf(stderr, "%s\n", command);
    exit(1);
}

/* Replaces this process, a child, by the program in the folder `dir`. arguments: words; standard
 * input is `input`, the output is in the files "out" and "err". Its libraries are loaded before. */
static inline void become(const char *dir, const char *program, const char *arguments,
                          const char *input, const char *library)
{
    static const char *const folders[] = {"DATA", "STATE", "CACHE", "CONFIG"};
    char words[512], *argv[32] = {(char *)program};
    int n = 1;
    snprintf(words, sizeof words, "%s", arguments);
    for (char *w = strtok(words, " "); w && n < 31; w = strtok(NULL, " ")) argv[n++] = w;
    if (chdir(dir)) _exit(98);
    int in = open("input", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(in, input, strlen(input)) < 0 || lseek(in, 0, SEEK_SET)) _exit(98);
    dup2(in, 0);
    dup2(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    setenv("HOME", ".", 1);
    for (int i = 0; i < 4; i++) {
        char name[24], path[160];
        snprintf(name, sizeof name, "XDG_%s_HOME", folders[i]);
        snprintf(path, sizeof path, "%s/%s", dir, folders[i]);
        setenv(name, path, 1);
    }
    if (library) setenv("LD_PRELOAD", library, 1);
    execv(program, argv);
    _exit(98);
}

#endif
