#include "cli/report.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"
#include "cli/options.h"

int report_error(const struct err *e)
{
    fprintf(stderr, "retain: %s\n", e->text);
    return err_exit_status(e->code);
}

void report_note(const char *fmt, ...)
{
    va_list ap;
    fputs("retain: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void report_json(cJSON *o)
{
    char *text = cJSON_PrintUnformatted(o);
    if (text) puts(text);
    fflush(stdout);
    free(text);
    cJSON_Delete(o);
}

int report_text(const struct options *o, struct str *out, struct err *e)
{
    if (o->prompt) {
        str_puts(out, o->prompt);
        return 0;
    }
    if (!o->file) return err_set(e, ERR_USAGE, "no text: give -p TEXT, -f FILE or -f -");
    return file_read(o->file, out, e);
}

int report_number(const char *list, int i, const char *option, int64_t min, int64_t *out,
                  struct err *e)
{
    char word[32], *end;
    if (!options_list_item(list, i, word, sizeof word)) return 1;
    *out = strtoll(word, &end, 10);
    if (end == word || *end || *out < min || *out > UINT32_MAX) /* positions have 32 bits */
        return err_set(e, ERR_USAGE, "%s: \"%s\" is not a whole number from %lld to %lld", option,
                       word, (long long)min, (long long)UINT32_MAX);
    return 0;
}

static volatile sig_atomic_t interrupted; /* a signal handler can reach nothing else */

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

bool report_interrupted(void)
{
    return interrupted;
}

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
