#include "base/edit_distance.h"

#include <limits.h>
#include <string.h>

/* The table is kept one row at a time. */
int edit_distance(const char *a, size_t n_a, const char *b)
{
    int row[EDIT_DISTANCE_BYTES_MAX + 1];
    size_t n_b = strlen(b);
    if (n_a > EDIT_DISTANCE_BYTES_MAX || n_b > EDIT_DISTANCE_BYTES_MAX) return INT_MAX;
    for (size_t j = 0; j <= n_b; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n_b];
}
