#include "cli/print/num.h"

#include <math.h>
#include <stdio.h>

const char *num_count(int64_t n, char *out)
{
    if (n < 0)
        snprintf(out, NUM_MAX, "n/a");
    else if (n < 1000)
        snprintf(out, NUM_MAX, "%d", (int)n);
    else if (n < 999950) /* rounded, 1000.0k would follow */
        snprintf(out, NUM_MAX, "%.1fk", (double)((n + 50) / 100) / 10.0);
    else
        snprintf(out, NUM_MAX, "%.2fM", (double)(n / 10000 + (n % 10000 >= 5000)) / 100.0);
    return out;
}

const char *num_exact(int64_t n, char *out)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    int at = 0;
    for (int i = 0; i < length; i++) {
        out[at++] = digits[i];
        int left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-') out[at++] = ',';
    }
    out[at] = 0;
    return out;
}

const char *num_unit(int64_t largest_bytes, double *divisor)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    for (*divisor = 1; i < 4 && (double)largest_bytes >= 1000.0 * *divisor; i++) *divisor *= 1024.0;
    return names[i];
}

const char *num_bytes(int64_t bytes, char *out)
{
    double divisor;
    const char *unit = num_unit(bytes, &divisor);
    double value = (double)bytes / divisor;
    if (bytes < 0)
        snprintf(out, NUM_MAX, "n/a");
    else
        snprintf(out, NUM_MAX, "%.*f %s",
                 divisor < 2 || value >= 100 ? 0
                 : value < 10                ? 2
                                             : 1,
                 value, unit);
    return out;
}

const char *num_age(int64_t now_ms, int64_t then_ms, char *out)
{
    static const struct {
        int64_t below_s, unit_s;
        const char *name;
    } steps[] = {
        {3600, 60, "m"},
        {86400, 3600, "h"},
        {60 * 86400, 86400, "d"},
        {730 * 86400, 30 * 86400, "mo"},
        {INT64_MAX, 365 * 86400, "y"},
    };
    int64_t s = now_ms / 1000 - then_ms / 1000;
    int i = 0;
    while (s >= steps[i].below_s) i++;
    if (s < 60)
        snprintf(out, NUM_MAX, "now");
    else
        snprintf(out, NUM_MAX, "%lld%s", (long long)(s / steps[i].unit_s), steps[i].name);
    return out;
}

const char *num_rate(double per_s, char *out)
{
    if (per_s <= 0)
        snprintf(out, NUM_MAX, "n/a");
    else
        snprintf(out, NUM_MAX, "%.*f", per_s >= 1000 ? 0 : per_s < 10 ? 2 : 1, per_s);
    return out;
}

const char *num_ms(double ms, char *out)
{
    if (ms <= 0)
        snprintf(out, NUM_MAX, "n/a");
    else
        snprintf(out, NUM_MAX, "%.0f ms", ms);
    return out;
}

const char *num_thought(int64_t n_tokens, double ms, char *out)
{
    char count[NUM_MAX];
    int n = 0;
    *out = 0;
    if (ms >= 1) n = snprintf(out, NUM_MAX, "%.*f s", ms < 9950, ms / 1000);
    if (n_tokens > 0)
        snprintf(out + n, (size_t)(NUM_MAX - n), "%s%s token%s", n ? ", " : "",
                 num_exact(n_tokens, count), n_tokens == 1 ? "" : "s");
    return out;
}

const char *num_replay(int64_t n_tokens, double tok_s, char *out)
{
    char n[NUM_MAX];
    int length = snprintf(out, NUM_MAX, "replays %s token%s", num_exact(n_tokens, n),
                          n_tokens == 1 ? "" : "s");
    if (n_tokens > 0 && tok_s > 0)
        snprintf(out + length, NUM_MAX - (size_t)length, ", about %.1f s",
                 (double)n_tokens / tok_s);
    return out;
}

const char *num_left(double s, char *out)
{
    if (s < 90)
        snprintf(out, NUM_MAX, "%.0f s left", ceil(s));
    else if (s < 5400)
        snprintf(out, NUM_MAX, "%.0f min left", s / 60);
    else
        snprintf(out, NUM_MAX, "%.1f h left", s / 3600);
    return out;
}

const char *num_share(int64_t part, int64_t whole, char *out)
{
    if (whole <= 0)
        snprintf(out, NUM_MAX, "n/a");
    else
        snprintf(out, NUM_MAX, "%.1f%%", 100.0 * (double)part / (double)whole);
    return out;
}
