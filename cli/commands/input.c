#include "cli/commands/input.h"

#include "base/file.h"
#include "cli/options/options.h"

int input_text(const struct options *o, struct str *out, struct err *e)
{
    if (o->text.prompt && o->text.file)
        return err_set(e, ERR_USAGE, "--prompt and --file exclude each other; give one of them");
    if (o->text.prompt) {
        str_puts(out, o->text.prompt);
        return 0;
    }
    if (!o->text.file) return err_set(e, ERR_USAGE, "no text: give -p TEXT, -f FILE or -f -");
    return file_read(o->text.file, out, e);
}
