#include "tui/slash.h"

#include <limits.h>
#include <string.h>

#include "runtime/base/nearest.h"

const struct slash_row slash_table[] = {
    {"help", SLASH_HELP, "keys and commands", 0},
    {"list", SLASH_LIST, "saved conversations", 0},
    {"map", SLASH_MAP, "which tokens are still in the cache", 0},
    {"tint", SLASH_TINT, "the text, shaded by what is left of it", 0},
    {"stats", SLASH_STATS, "speed, memory and cache in numbers", 0},
    {"continue", SLASH_CONTINUE, "go on with an answer that was stopped", 0},
    {"log", SLASH_LOG, "what libraries and drivers printed", 1},
    {"quit", SLASH_QUIT, "leave; everything is saved", 0},
    {"exit", SLASH_QUIT, "the same", 0},
    {NULL, SLASH_SAY, NULL, 0},
};

static size_t word_length(const char *s, size_t n)
{
    size_t length = 0;
    while (length < n && s[length] != ' ' && s[length] != '\t' && s[length] != '\n') length++;
    return length;
}

enum slash slash_parse(const char *line, size_t n, const char **rest, size_t *n_rest)
{
    *rest = line;
    *n_rest = n;
    if (n == 0 || line[0] != '/') return SLASH_SAY;
    if (n > 1 && line[1] == '/') {
        *rest = line + 1;
        *n_rest = n - 1;
        return SLASH_SAY;
    }
    size_t length = word_length(line + 1, n - 1);
    for (const struct slash_row *row = slash_table; row->name; row++) {
        if (strlen(row->name) != length || memcmp(row->name, line + 1, length) != 0) continue;
        size_t at = 1 + length;
        while (at < n && line[at] == ' ') at++;
        *rest = line + at;
        *n_rest = n - at;
        return row->id;
    }
    return SLASH_UNKNOWN;
}

const char *slash_nearest(const char *line, size_t n)
{
    size_t length = n > 0 ? word_length(line + 1, n - 1) : 0;
    if (length > NEAREST_BYTES_MAX) length = NEAREST_BYTES_MAX;
    const char *best = slash_table[0].name;
    int best_distance = INT_MAX;
    for (const struct slash_row *row = slash_table; row->name; row++) {
        size_t n_name = strlen(row->name);
        int d = nearest_distance(line + 1, length, row->name);
        if (length > 0 && length < n_name && memcmp(line + 1, row->name, length) == 0) d = 0;
        if (d < best_distance) {
            best_distance = d;
            best = row->name;
        }
    }
    return best;
}
