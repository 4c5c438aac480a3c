#include "base/nearest.h"

#include <string.h>

enum { BYTES_MAX = 32, FAR = 3 /* edits of a name that is not similar */ };

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* How many letters of a[n_a] are wrong, missing, too many, or a pair of them swapped, to be b[n_b]:
 * rows of the table, of which three are kept. */
static int distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int rows[3][BYTES_MAX + 1];
    for (size_t j = 0; j <= n_b; j++) rows[0][j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            now[j] =
                smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

struct nearest nearest_to(const char *word, size_t n)
{
    return (struct nearest){.word = word, .n = n, .edits = n < 4 ? FAR - 1 : FAR};
}

void nearest_offer(struct nearest *to, const char *name)
{
    const size_t n = to->n, n_name = strlen(name), shorter = n < n_name ? n : n_name;
    if (n > BYTES_MAX || n_name > BYTES_MAX) return;
    int edits = distance(to->word, n, name, n_name);
    if (shorter >= 3 && edits > 1 && !memcmp(to->word, name, shorter)) edits = 1;
    if (edits >= (int)n || edits > to->edits - !to->name) return;
    if (edits < to->edits) {
        to->name = name;
        to->other = NULL;
        to->edits = edits;
    } else if (!to->other) {
        to->other = name;
    }
}
