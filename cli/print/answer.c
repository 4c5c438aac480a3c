#include "cli/print/answer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8_width.h"

void answer_init(struct answer *a, int fd)
{
    memset(a, 0, sizeof *a);
    a->fd = fd;
    a->tty = isatty(fd) != 0;
    a->gate.ascii = !utf8_locale();
}

void answer_release(struct answer *a)
{
    str_release(&a->safe);
}

static void write_all(struct answer *a, const char *bytes, size_t n)
{
    if (!a->error && file_write(a->fd, bytes, n)) a->error = errno;
}

void answer_write(struct answer *a, const char *bytes, size_t n)
{
    if (!a->tty) {
        write_all(a, bytes, n);
        return;
    }
    str_clear(&a->safe);
    sanitize_feed(&a->gate, bytes, n, &a->safe);
    write_all(a, str_get(&a->safe), a->safe.n);
}

void answer_end(struct answer *a)
{
    str_clear(&a->safe);
    sanitize_end(&a->gate, &a->safe);
    write_all(a, str_get(&a->safe), a->safe.n);
    write_all(a, "\n", 1);
}

int answer_check(const struct answer *a, struct err *e)
{
    if (!a->error || a->error == EPIPE) return 0;
    return err_set(e, ERR_FAIL, "writing the answer to standard output: %s", strerror(a->error));
}
