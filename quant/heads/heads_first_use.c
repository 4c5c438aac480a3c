#include "quant/heads/heads_first_use.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "quant/heads/heads_calibrate.h"
#include "runtime/model/gguf.h"
#include "runtime/model/retaining.h"

/* Whether a file has heads whose scores do not compare; hex: its digest. */
static bool needs_scale(const char *path, char hex[DIGEST_HEX])
{
    struct gguf *file;
    struct retaining *h = NULL;
    struct err e;
    uint8_t digest[DIGEST_BYTES];
    size_t n;
    if (gguf_open(&file, path, &e) || retaining_open(&h, file, &e)) return false; /* chat says so */
    const void *bytes = gguf_bytes(file, &n);
    digest_make(digest, bytes, n);
    digest_hex(hex, digest);
    const bool compares = retaining_comparable(h);
    retaining_close(h);
    return !compares;
}

static int write_text(const char *path, void (*manual)(struct str *out), struct err *e)
{
    struct str text = {0};
    manual(&text);
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(str_get(&text), text.n, 1, f) == 1;
    if (f && fclose(f)) ok = false;
    str_release(&text);
    return ok ? 0 : err_set(e, ERR_FAIL, "%s cannot be written: %m", path);
}

#define ROWS 4 /* enough for the demo model: as many right answers as with the trained scale */

static int calibrate(const struct options *o, void (*manual)(struct str *out), const char *out,
                     struct err *e)
{
    struct options next = *o;
    struct str text = {0};
    char hex[DIGEST_HEX];
    str_printf(&text, "%s.txt", out);
    next.training = (struct training_opts){.text = str_get(&text), .out = out, .steps = ROWS};
    next.n_args = 0;
    report_note(
        "the scores of %s compare within a head only: calibrating them with the manual page, "
        "once; Ctrl-C uses them as they are",
        o->engine.heads.path);
    int rc = write_text(str_get(&text), manual, e);
    if (!rc) rc = heads_calibrate_file(&next, hex, e);
    unlink(str_get(&text));
    str_release(&text);
    report_clear_interrupt();
    return rc;
}

void heads_first_use(struct options *o, void (*manual)(struct str *out), struct str *path)
{
    const struct policy *p = o->session.plan.policy.row;
    char hex[DIGEST_HEX], name[sizeof hex + 16];
    struct err e;
    if (!o->engine.heads.path || o->engine.heads.none || (p && strcmp(p->name, "keeper") != 0) ||
        !needs_scale(o->engine.heads.path, hex))
        return;
    snprintf(name, sizeof name, "heads/%s.gguf", hex);
    int rc = path_state(name, path, &e);
    if (!rc && access(str_get(path), F_OK)) rc = calibrate(o, manual, str_get(path), &e);
    if (!rc)
        o->engine.heads.path = str_get(path);
    else
        report_note("%s", e.text);
}
