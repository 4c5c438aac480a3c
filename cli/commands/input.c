#include "cli/commands/input.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "cli/print/report.h"

int input_text(const struct options *o, struct str *out, struct err *e)
{
    const struct options_files *files = &o->text.files;
    if (o->text.prompt && files->n)
        return err_set(e, ERR_USAGE, "--prompt and --file exclude each other; give one of them");
    if (o->text.prompt) {
        str_puts(out, o->text.prompt);
        return 0;
    }
    if (!files->n) return err_set(e, ERR_USAGE, "no text: give -p TEXT, -f FILE or -f -");
    if (files->n > 1) return err_set(e, ERR_USAGE, "this command reads one --file");
    return file_read(files->item[0], FILE_MESSAGE, out, e);
}

/* Whether a pipe or a file is connected; neither a terminal nor /dev/null is read. */
static bool has_stdin(const struct options_files *files)
{
    struct stat st;
    for (int i = 0; i < files->n; i++)
        if (!strcmp(files->item[i], "-")) return false; /* its place among them is given */
    return !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

/* names: the model should know where one text ends and another begins. */
static int add_file(const char *file, bool names, struct str *out, struct err *e)
{
    if (out->n) str_puts(out, "\n\n");
    if (names && strcmp(file, "-")) str_printf(out, "%s:\n", file);
    return file_read(file, FILE_MESSAGE, out, e);
}

int input_document(const struct options *o, struct str *out, struct err *e)
{
    const struct options_files *files = &o->text.files;
    bool reads = has_stdin(files) || (!o->text.prompt && !files->n);
    if (reads && isatty(STDIN_FILENO)) report_note("reading the prompt; Ctrl-D ends it");
    int rc = reads ? add_file("-", false, out, e) : 0;
    bool names = files->n + (out->n > 0) > 1;
    for (int i = 0; !rc && i < files->n; i++) rc = add_file(files->item[i], names, out, e);
    return rc;
}
