#include "cli/plain/plain_parts.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/print/report.h"

enum { PASTE_MS = 20 };
enum { TERMINAL_LINE = 4095 }; /* bytes that Linux keeps of a line typed at a terminal */

/* Takes a whole line out of the input; false when there is none. */
static bool take_line(struct line_reader *r, size_t searched, struct str *line)
{
    if (r->input.n <= searched) return false;
    char *start = r->input.data;
    char *newline = memchr(start + searched, '\n', r->input.n - searched);
    if (!newline) return false;
    size_t n = (size_t)(newline - start);
    str_append(line, start, n && start[n - 1] == '\r' ? n - 1 : n);
    r->input.n -= n + 1;
    memmove(start, newline + 1, r->input.n);
    return true;
}

static bool readable(int ms)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&fd, 1, ms) > 0;
}

/* Reads with read(2): stdio would hide the interrupted call. */
enum line_end line_reader_line(struct line_reader *r, struct str *line)
{
    char buffer[65536];
    size_t searched = 0;
    str_clear(line);
    while (!take_line(r, searched, line)) {
        searched = r->input.n;
        if (searched > file_max(FILE_MESSAGE)) {
            r->error = EMSGSIZE;
            return LINE_FAILED;
        }
        if (report_interrupted()) return LINE_INTERRUPTED;
        ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) {
            str_append(&r->input, buffer, (size_t)n);
            continue;
        }
        if (n < 0) {
            r->error = errno;
            return LINE_FAILED;
        }
        if (r->input.n == 0) return LINE_EOF;
        str_append(line, r->input.data, r->input.n);
        str_clear(&r->input);
        break;
    }
    if (r->interactive && line->n == TERMINAL_LINE)
        report_note("the terminal may have cut this line after %d bytes; /file sends longer texts",
                    TERMINAL_LINE);
    return LINE_READ;
}

enum line_end line_reader_message(struct line_reader *r, struct str *text)
{
    bool ahead = !r->interactive || r->input.n > 0 || readable(0);
    if (r->ended) return LINE_EOF;
    enum line_end end = line_reader_line(r, text), next;
    struct str line = {0};
    int n_lines = 1;
    while (!ahead && end == LINE_READ && readable(PASTE_MS)) {
        next = line_reader_line(r, &line);
        r->ended = next == LINE_EOF;
        if (next != LINE_READ) break;
        str_puts(text, "\n");
        str_append(text, str_get(&line), line.n);
        n_lines++;
    }
    str_release(&line);
    if (n_lines > 1) report_note("%d lines as one message", n_lines);
    return end;
}
