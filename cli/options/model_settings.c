#include "cli/options/model_settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"

int model_settings_path(const char *model, struct str *out, struct err *e)
{
    char name[64], hex[DIGEST_HEX];
    uint8_t digest[DIGEST_BYTES];
    char *real = realpath(model, NULL);
    if (!real) return err_set(e, ERR_FAIL, "%s: %s", model, strerror(errno));
    const char *slash = strrchr(real, '/');
    digest_make(digest, real, strlen(real));
    digest_hex(hex, digest);
    snprintf(name, sizeof name, "%.50s-%.8s", slash ? slash + 1 : real, hex);
    int rc = path_find(PATH_CONFIG, "models/", out, e);
    if (!rc) str_printf(out, "%s.conf", name);
    free(real);
    return rc;
}

int model_settings_write(const char *model, const char *text, struct err *e)
{
    struct str path = {0}, whole = {0};
    int rc = model_settings_path(model, &path, e);
    if (!rc) rc = file_make_folders(path.data, e);
    if (!rc && strchr(model, '\n'))
        rc = err_set(e, ERR_FAIL, "%s cannot be written", str_get(&path));
    str_printf(&whole, "# %s\n%s", model, text);
    if (!rc) rc = file_make(str_get(&path), str_get(&whole), whole.n, e);
    str_release(&path);
    str_release(&whole);
    return rc;
}

void model_settings_read(const char *model, int *budget, char **heads)
{
    struct str path = {0}, text = {0};
    struct options o;
    *budget = 0;
    *heads = NULL;
    options_init(&o);
    if (!model_settings_path(model, &path, NULL) && !access(str_get(&path), F_OK) &&
        !file_read(str_get(&path), FILE_SETTINGS, &text, NULL) && text.n &&
        !options_parse_layer(&o, OPTIONS_CONFIG, text.data, str_get(&path), NULL)) {
        *budget = o.session.plan.budget;
        *heads = o.engine.heads.path ? strdup(o.engine.heads.path) : NULL;
    }
    str_release(&path);
    str_release(&text);
}
