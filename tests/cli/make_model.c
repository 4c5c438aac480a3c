/* make_model KIND FILE: writes a model file of tests/unit/make_model.h, for scripts. */
#include "tests/unit/make_model.h"

int main(int argc, char **argv)
{
    struct maker m = {0};
    if (argc != 3 || !make_model(&m, argv[1])) {
        fprintf(stderr, "usage: make_model chatml|llama3|gemma|base|mtp FILE\n");
        return 2;
    }
    FILE *f = fopen(argv[2], "wb");
    bool written = f && fwrite(m.file.data, 1, m.file.n, f) == m.file.n;
    if (f && fclose(f)) written = false;
    maker_release(&m);
    if (!written) perror(argv[2]);
    return !written;
}
