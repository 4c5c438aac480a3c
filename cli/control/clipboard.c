#include "cli/control/clipboard.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/control/external.h"
#include "cli/options/paths.h"
#include "cli/print/sanitize.h"

/* xterm does not accept longer sequences. */
enum { OSC52_BASE64_MAX = 74994 };

void clipboard_osc52(const char *text, size_t n, struct str *out)
{
    const size_t max = sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_ORIGINAL);
    char *code = memory_grow(NULL, max, 1);
    sodium_bin2base64(code, max, (const unsigned char *)text, n, sodium_base64_VARIANT_ORIGINAL);
    str_printf(out, "\033]52;c;%s\007", code);
    free(code);
}

/* `tmux load-buffer -w -` sets the terminal's clipboard too (tmux 3.2). */
static int to_tmux(const char *text, size_t n)
{
    int ends[2], status = -1;
    if (pipe(ends)) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("tmux", "tmux", "load-buffer", "-w", "-", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    bool whole = pid > 0 && file_write(ends[1], text, n) == 0;
    close(ends[1]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* false: there is no terminal. */
static bool to_terminal(const char *text, size_t n, int terminal)
{
    struct str out = {0};
    int fd = terminal >= 0 ? terminal : isatty(STDERR_FILENO) ? STDERR_FILENO : -1;
    if (fd < 0) return false;
    clipboard_osc52(text, n, &out);
    file_write(fd, out.data, out.n);
    str_release(&out);
    return true;
}

int clipboard_copy(const char *text, size_t n, const char *secret, int terminal, char how[256],
                   struct err *e)
{
    struct str out = {0};
    int rc = 0;
    const char *tmux = getenv("TMUX");
    if (tmux && *tmux && to_tmux(text, n) == 0) {
        snprintf(how, 256, "to tmux (prefix ] pastes)");
        return 0;
    }
    if (terminal_is_polite() && n <= OSC52_BASE64_MAX / 4 * 3 && to_terminal(text, n, terminal)) {
        snprintf(how, 256, "to the terminal's clipboard, if it supports OSC 52");
    } else if (secret) {
        rc = err_set(e, ERR_FAIL,
                     "no clipboard takes the text, and of a private or encrypted conversation no "
                     "file is written%s",
                     secret);
    } else {
        rc = path_make(PATH_STATE, "copied", &out, e);
        if (!rc) {
            unlink(out.data);
            rc = external_save(out.data, text, n, e);
        }
        if (!rc) snprintf(how, 256, "to %.200s", out.data);
    }
    str_release(&out);
    return rc;
}
