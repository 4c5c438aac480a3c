#include "quant/files/benchmark.h"

#include <stdlib.h>
#include <string.h>

#include "quant/files/formats.h"

/* ---- recognising ----------------------------------------------------------------------------- */

void benchmark_names(struct str *out)
{
    for (int i = 0; format_at(i); i++) str_printf(out, "%s%s", i ? ", " : "", format_at(i)->name);
}

static bool has_marks(const cJSON *record, const struct benchmark_format *f)
{
    for (int i = 0; i < FORMAT_MARKS_MAX && f->marks[i]; i++)
        if (!format_member(record, f->marks[i])) return false;
    return true;
}

static const struct benchmark_format *format_named(const char *name, size_t n)
{
    for (int i = 0; format_at(i); i++)
        if (strlen(format_at(i)->name) == n && !strncmp(format_at(i)->name, name, n))
            return format_at(i);
    return NULL;
}

/* The row of the benchmark with the longest name that `task` begins with. */
static const struct benchmark_task *find_task(const char *benchmark, const char *task)
{
    const struct benchmark_task *best = NULL, *t;
    for (int i = 0; (t = benchmark_task_at(i)); i++) {
        size_t n = strlen(t->name);
        if (strcmp(t->benchmark, benchmark) != 0 || strncmp(task, t->name, n) != 0) continue;
        if (!best || n > strlen(best->name)) best = t;
    }
    return best;
}

/* The file's name without folder and ending; RULER's generators name the folder after the task. */
static void stem(const char *path, bool folder, struct str *out)
{
    const char *end = path + strlen(path), *from = end;
    while (from > path && from[-1] != '/') from--;
    if (folder && from > path) {
        end = from - 1;
        for (from = end; from > path && from[-1] != '/';) from--;
        str_append(out, from, (size_t)(end - from));
        return;
    }
    const char *dot = strchr(from, '.');
    str_append(out, from, (size_t)((dot ? dot : end) - from));
}

/* The names of a benchmark's tasks. */
static void list_tasks(const char *benchmark, struct str *out)
{
    const struct benchmark_task *t;
    for (int i = 0; (t = benchmark_task_at(i)); i++)
        if (!strcmp(t->benchmark, benchmark)) str_printf(out, "%s%s", out->n ? ", " : "", t->name);
}

static int unknown_task(const struct benchmark_file *f, const char *task, struct err *e)
{
    struct str tasks = {0};
    list_tasks(f->format->name, &tasks);
    int rc = err_set(e, ERR_USAGE,
                     "%s looks like %s, but \"%s\" is none of its tasks: name it with --format "
                     "%s/TASK; known are: %s",
                     f->records.path, f->format->name, task, f->format->name, str_get(&tasks));
    str_release(&tasks);
    return rc;
}

/* By name of file or folder, or by fields that say it. */
static int choose_task(struct benchmark_file *f, const cJSON *record, const char *given,
                       struct err *e)
{
    struct str names[4] = {{0}, {0}, {0}, {0}};
    const char *dataset = format_string(record, "dataset");
    const char *how = format_string(record, "evaluation");
    str_puts(&names[0], given ? given : dataset ? dataset : "");
    if (!given) stem(f->records.path, false, &names[1]);
    if (!given) stem(f->records.path, true, &names[2]);
    if (!given) str_puts(&names[3], how ? how : "");
    int found = -1;
    for (int i = 0; i < 4 && found < 0; i++) {
        f->task = find_task(f->format->name, str_get(&names[i]));
        if (f->task && (names[i].n || !*f->task->name)) found = i;
    }
    int rc = found < 0 ? unknown_task(f, str_get(&names[given ? 0 : 1]), e) : 0;
    if (found >= 0) {
        const char *name = str_get(&names[found == 3 || !*f->task->name ? 1 : found]);
        str_puts(&f->name, f->format->name);
        if (*f->task->name || given) str_puts(&f->name, "/");
        if (*f->task->name || given) str_puts(&f->name, name);
    }
    for (int i = 0; i < 4; i++) str_release(&names[i]);
    return rc;
}

static int choose_format(struct benchmark_file *f, const cJSON *record, const char *given,
                         struct err *e)
{
    struct str known = {0};
    const char *slash = given ? strchr(given, '/') : NULL;
    size_t n = given ? (slash ? (size_t)(slash - given) : strlen(given)) : 0;
    int rc = 0;
    f->format = given ? format_named(given, n) : NULL;
    for (int i = 0; !given && !f->format && format_at(i); i++)
        if (has_marks(record, format_at(i))) f->format = format_at(i);
    benchmark_names(&known);
    if (!f->format && given)
        rc = err_set(e, ERR_USAGE, "--format %s is not known; known are: %s", given,
                     str_get(&known));
    else if (!f->format)
        rc = err_set(e, ERR_FORMAT,
                     "%s:%lld: the fields are those of no known format; known are %s, and plain "
                     "has context, question and answers",
                     f->records.path, (long long)f->line, str_get(&known));
    else
        rc = choose_task(f, record, slash ? slash + 1 : NULL, e);
    str_release(&known);
    return rc;
}

/* ---- items ----------------------------------------------------------------------------------- */

static int next_record(struct benchmark_file *f, struct err *e)
{
    cJSON_Delete(f->record);
    f->next = f->n_in_record = 0;
    int rc = records_next(&f->records, &f->record, &f->line, e);
    if (rc == 1 && f->format)
        f->n_in_record = f->format->count ? f->format->count(f->record, f->task) : 1;
    return rc;
}

int benchmark_open(struct benchmark_file *f, const char *path, const char *format, struct err *e)
{
    *f = (struct benchmark_file){0};
    int rc = records_open(&f->records, path, e);
    if (!rc) rc = next_record(f, e);
    if (!rc) rc = err_set(e, ERR_FORMAT, "%s: there is no JSON object in it", path);
    if (rc == 1) rc = choose_format(f, f->record, format, e);
    if (rc) {
        benchmark_close(f);
        return rc;
    }
    f->n_in_record = f->format->count ? f->format->count(f->record, f->task) : 1;
    return 0;
}

void benchmark_close(struct benchmark_file *f)
{
    records_close(&f->records);
    cJSON_Delete(f->record);
    str_release(&f->name);
    *f = (struct benchmark_file){0};
}

static int put_field(const struct benchmark_file *f, int i, const char *name, struct str *out,
                     struct err *e)
{
    struct str text = {0};
    int rc = f->format->field ? f->format->field(f->record, f->task, i, name, out, e) : 1;
    if (rc <= 0) return rc;
    rc = 0;
    if (format_text(format_member(f->record, name), &text))
        str_append(out, str_get(&text), text.n);
    else
        rc = err_set(e, ERR_FORMAT, "there is no text \"%s\"", name);
    str_release(&text);
    return rc;
}

/* Fills the prompt's {FIELD}s; what {context} stands for is kept apart. */
static int put_prompt(const struct benchmark_file *f, int i, struct item *out, struct err *e)
{
    struct str *to = &out->before;
    int rc = 0;
    for (const char *s = f->task->prompt; *s && !rc;) {
        size_t n = strcspn(s, "{");
        str_append(to, s, n);
        if (!*(s += n)) break;
        char name[32];
        n = strcspn(s, "}") - 1;
        memcpy(name, s + 1, n);
        name[n] = 0;
        s += n + 2;
        bool context = !strcmp(name, "context");
        rc = put_field(f, i, name, context ? &out->context : to, e);
        if (context) to = &out->after;
    }
    return rc;
}

static int add_answer(const cJSON *node, struct item *out, struct err *e)
{
    struct str text = {0};
    int rc = 0;
    if (!format_text(node, &text))
        rc = err_set(e, ERR_FORMAT, "an answer is no text and no number");
    else if (text.n > ITEM_ANSWER_BYTES_MAX)
        rc = err_set(e, ERR_FORMAT, "an answer has %zu bytes; at most %d are compared", text.n,
                     ITEM_ANSWER_BYTES_MAX);
    else
        item_strings_add(&out->answers, str_get(&text), text.n);
    str_release(&text);
    return rc;
}

/* An answer, or a list of answers, or a list with such a list in it (math_calc). */
static int put_answers(const cJSON *node, const char *name, struct item *out, struct err *e)
{
    const cJSON *answer;
    int rc = 0;
    if (!node)
        return err_set(e, ERR_FORMAT, "there is no answer%s%s%s", name ? " \"" : "",
                       name ? name : "", name ? "\"" : "");
    if (!cJSON_IsArray(node)) return add_answer(node, out, e);
    if (cJSON_GetArraySize(node) == 1 && cJSON_IsArray(node->child)) node = node->child;
    cJSON_ArrayForEach(answer, node) if (!rc) rc = add_answer(answer, out, e);
    if (!rc && !out->answers.n) rc = err_set(e, ERR_FORMAT, "the list of answers is empty");
    return rc;
}

static int fill(struct benchmark_file *f, int i, struct item *out, struct err *e)
{
    const struct benchmark_format *format = f->format;
    const struct benchmark_task *t = f->task;
    struct str text = {0};
    item_clear(out);
    out->line = f->line;
    out->number = ++f->number;
    out->metric = metric_named(t->metric);
    out->n_predict = t->n_predict;
    out->raw = t->raw;
    out->first_line = t->first_line;
    out->system = t->system;
    out->cut = t->cut;
    if (t->prefix) str_puts(&out->prefix, t->prefix);
    if (format->id && format_text(format_member(f->record, format->id), &text))
        str_append(&out->id, str_get(&text), text.n);
    if (format->group && format_text(format_member(f->record, format->group), &text))
        str_append(&out->group, str_get(&text), text.n);
    str_release(&text);
    int rc = put_prompt(f, i, out, e);
    if (!rc)
        rc = put_answers(format->answer ? format->answer(f->record, t, i)
                                        : format_member(f->record, format->answers),
                         format->answers, out, e);
    if (!rc && format->finish) rc = format->finish(f->record, t, i, out, e);
    return rc;
}

int benchmark_next(struct benchmark_file *f, struct item *out, struct err *e)
{
    while (f->record && f->next == f->n_in_record) {
        int rc = next_record(f, e);
        if (rc <= 0) return rc;
    }
    if (!f->record) return 0;
    int rc = fill(f, f->next++, out, e);
    return rc ? err_prefix(e, "%s:%lld", f->records.path, (long long)f->line) : 1;
}

int benchmark_check(const char *path, const char *format, struct benchmark_size *out, struct err *e)
{
    struct benchmark_file f;
    struct item item = {0};
    int rc = benchmark_open(&f, path, format, e);
    *out = (struct benchmark_size){0};
    if (rc) return rc;
    while ((rc = benchmark_next(&f, &item, e)) == 1) {
        size_t bytes = item.before.n + item.context.n + item.after.n;
        if (bytes > out->prompt_bytes) out->prompt_bytes = bytes;
        out->n_items++;
    }
    if (!rc && !out->n_items)
        rc = err_set(e, ERR_FORMAT, "%s: no question in it has a metric", path);
    item_release(&item);
    benchmark_close(&f);
    return rc;
}
