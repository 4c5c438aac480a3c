/* num: formats numbers. All screens and messages use it, so that one value looks the same
 * everywhere. All functions return `out`, which has room for NUM_MAX. */
#ifndef RETAIN_CLI_PRINT_NUM_H
#define RETAIN_CLI_PRINT_NUM_H

#include <stdint.h>

#define NUM_MAX 48

const char *num_count(int64_t n, char *out);     /* 940, 31.7k, 1.20M */
const char *num_exact(int64_t n, char *out);     /* 31,744 */
const char *num_bytes(int64_t bytes, char *out); /* 812 B, 4.2 KiB, 1.20 GiB; n/a below 0 */
/* The time from then_ms to now_ms: now, 5m, 2h, 3d, 7mo, 2y. A file may hold any then_ms. */
const char *num_age(int64_t now_ms, int64_t then_ms, char *out);
const char *num_rate(double per_s, char *out); /* 312.4; n/a for 0 */
const char *num_ms(double ms, char *out);      /* 12 ms; n/a for 0 */
const char *num_left(double s, char *out);     /* 12 s left, 40 min left, 2.5 h left */
/* "12 s, 345 tokens"; without the time if it is not known (0), without the tokens likewise. */
const char *num_thought(int64_t n_tokens, double ms, char *out);
/* "replays 4,210 tokens, about 0.8 s"; without the time if the speed is not known (0). */
const char *num_replay(int64_t n_tokens, double tok_s, char *out);
const char *num_share(int64_t part, int64_t whole, char *out); /* 12.9%; n/a of 0 */

/* One unit for the values of a sum: its name, and its divisor. */
const char *num_unit(int64_t largest_bytes, double *divisor);

#endif
