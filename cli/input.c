#include "cli/input.h"

#include <stdlib.h>

#include "base/file.h"
#include "cli/options.h"

int input_text(const struct options *o, struct str *out, struct err *e)
{
    if (o->prompt) {
        str_puts(out, o->prompt);
        return 0;
    }
    if (!o->file) return err_set(e, ERR_USAGE, "no text: give -p TEXT, -f FILE or -f -");
    return file_read(o->file, out, e);
}

int input_number(const char *list, int i, const char *option, int64_t min, int64_t *out,
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
