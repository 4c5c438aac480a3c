/* err: error codes, and one message per error, written where the error is detected.
 * Every function that can fail returns 0 or one of these negative codes and fills a caller-owned
 * `struct err` with one line for the user, which names the operation that failed, the name and the
 * value concerned, the value expected and the remedy. Nothing here prints. */
#ifndef RETAIN_BASE_ERR_H
#define RETAIN_BASE_ERR_H

enum err_code {
    ERR_FAIL = -1,   /* the operation failed; exit status 1 */
    ERR_USAGE = -2,  /* invalid usage; exit status 2 */
    ERR_FORMAT = -3, /* a bad, damaged or unsupported file; exit status 3 */
    ERR_FIT = -4,    /* does not fit into the memory allowed; exit status 4 */
    ERR_STOP = -130, /* interrupted by the user; exit status 130 */
};

struct err {
    int code;
    char text[512];
};

/* Fills *e (may be NULL) and returns `code`, so that callers write `return err_set(e, …)`. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "what: " before the existing text; returns e->code. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The process exit status for a code (0 stays 0). */
int err_exit_status(int code);

#endif
