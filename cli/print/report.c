#include "cli/print/report.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "base/utf8_width.h"
#include "cli/print/sanitize.h"

/* The only function that writes to a standard stream. */
static void put(FILE *out, const char *text, size_t n, bool one_line)
{
    struct str safe = {0};
    if (out == stderr || isatty(fileno(out)))
        sanitize(text, n, !utf8_locale(), one_line, &safe);
    else
        str_append(&safe, text, n);
    if (one_line) str_puts(&safe, "\n");
    fwrite(str_get(&safe), 1, safe.n, out);
    if (one_line) fflush(out); /* a row of a long measurement is visible at once */
    str_release(&safe);
}

/* ---- stderr ---------------------------------------------------------------------------------- */

int report_error(const struct err *e)
{
    struct str text = {0};
    str_printf(&text, "retain: %s", e->text);
    put(stderr, text.data, text.n, true);
    str_release(&text);
    return err_exit_status(e->code);
}

void report_note(const char *fmt, ...)
{
    struct str text = {0};
    va_list ap;
    str_puts(&text, "retain: ");
    va_start(ap, fmt);
    str_vprintf(&text, fmt, ap);
    va_end(ap);
    str_puts(&text, "\n");
    put(stderr, text.data, text.n, false);
    str_release(&text);
}

void report_aside(const char *fmt, ...)
{
    struct str text = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&text, fmt, ap);
    va_end(ap);
    put(stderr, str_get(&text), text.n, false);
    str_release(&text);
}

/* ---- stdout ---------------------------------------------------------------------------------- */

void report_line(const char *fmt, ...)
{
    struct str text = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&text, fmt, ap);
    va_end(ap);
    put(stdout, str_get(&text), text.n, true);
    str_release(&text);
}

void report_text(const char *text, size_t n)
{
    put(stdout, text, n, false);
}

void report_marked(const char *line)
{
    struct str safe = {0};
    bool tty = isatty(STDOUT_FILENO);
    while (*line) {
        size_t n = strcspn(line, "\2\3");
        sanitize(line, n, !utf8_locale(), true, &safe);
        line += n;
        if (*line && tty) str_puts(&safe, *line == '\2' ? "\033[1m" : "\033[22m");
        line += *line != 0;
    }
    str_puts(&safe, tty ? "\033[22m\n" : "\n"); /* a name may contain such a byte, too */
    fwrite(safe.data, 1, safe.n, stdout);
    str_release(&safe);
}

void report_json(cJSON *o)
{
    char *text = cJSON_PrintUnformatted(o);
    if (text) report_line("%s", text);
    free(text);
    cJSON_Delete(o);
}

void report_cell(struct str *line, const char *text, int columns)
{
    size_t from = line->n;
    sanitize(text, strlen(text), !utf8_locale(), true, line);
    int at = columns ? utf8_columns(str_get(line) + from, line->n - from) : 0;
    if (at < columns) str_printf(line, "%*s", columns - at, "");
}

int report_finish(int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status) return status;
    report_note("writing to standard output failed");
    return 1;
}

/* ---- the bar --------------------------------------------------------------------------------- */

struct report_bar report_bar(const char *what)
{
    return (struct report_bar){.what = what, .shown = isatty(STDERR_FILENO)};
}

int report_bar_show(void *ctx, int64_t done, int64_t total)
{
    struct report_bar *p = ctx;
    int64_t now = system_clock_ns();
    if (report_interrupted()) return 1;
    if (!p->shown || total <= 0 || (done < total && now - p->last_ns < 100000000)) return 0;
    p->last_ns = now;
    int cells = (int)(done * 30 / total);
    fprintf(stderr, "\r%s [%.*s%.*s] %3d %%", p->what, cells, "##############################",
            30 - cells, "..............................", (int)(done * 100 / total));
    return 0;
}

void report_bar_end(const struct report_bar *p)
{
    if (p->shown && p->last_ns) fputs("\r\033[K", stderr);
}

void report_status(const char *fmt, ...)
{
    struct str text = {0}, safe = {0};
    va_list ap;
    if (!isatty(STDERR_FILENO)) return;
    va_start(ap, fmt);
    str_vprintf(&text, fmt, ap);
    va_end(ap);
    sanitize(str_get(&text), text.n, !utf8_locale(), true, &safe);
    fprintf(stderr, "\r%s\033[K", str_get(&safe));
    str_release(&text);
    str_release(&safe);
}

void report_status_end(void)
{
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

/* ---- interruption ---------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted; /* the only thing a signal handler can reach */

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

void report_catch_interrupt(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

void report_catch_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt}; /* no SA_RESTART: a waiting read returns */
    sigaction(SIGINT, &a, NULL);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

void report_clear_interrupt(void)
{
    interrupted = 0;
}

bool report_interrupted(void)
{
    return interrupted != 0;
}
