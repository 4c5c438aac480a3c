/* fake_stage: a stage with scripted answers. */
#ifndef RETAIN_TESTS_TUI_FAKE_STAGE_H
#define RETAIN_TESTS_TUI_FAKE_STAGE_H

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/tui/scripted.h"
#include "tests/tui/stage.h"
#include "tests/unit/make_gguf.h"

#define STAGE_NOW_MS INT64_C(1767362533000)

/* A folder of this process. In memory where possible: each turn is flushed to the disk. */
static inline const char *stage_folder(void)
{
    static char folder[64];
    snprintf(folder, sizeof folder, "%s/retain-stage-%d",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
    return folder;
}

static inline void stage_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", stage_folder());
    if (system(command)) abort();
}

/* A cache that is full after a few sentences, of a policy that computes with no floats. */
static inline void scripted_plan(struct plan_opts *o)
{
    o->policy = policy_choice("random");
    o->budget = 128;
    o->policy.reserve = 32;
}

/* A copy of the three conversations. No child makes it: fork takes long in a large process. */
static inline const char *stage_library(void)
{
    static char path[80], beside[96];
    static struct str first;
    snprintf(path, sizeof path, "%s/retain.db", stage_folder());
    if (!first.n) {
        if (mkdir(stage_folder(), 0700)) abort();
        atexit(stage_remove);
        scripted_library(path, STAGE_NOW_MS);
        if (file_read(path, FILE_MESSAGE, &first, NULL)) abort();
    }
    for (int i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", path, (const char *const[]){"", "-wal", "-shm"}[i]);
        unlink(beside);
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(first.data, 1, first.n, f) != first.n || fclose(f)) abort();
    return path;
}

/* An app at 2026-01-02 14:02:13 UTC whose model is still loading. */
static inline void stage_init(struct stage *s, bool ascii, bool private_mode)
{
    scripted = (struct scripted){0};
    stage_begin(s, ascii, private_mode ? NULL : stage_library());
    scripted_plan(&s->o.session.plan);
    s->o.session.sampling.seed = 1;
    s->steady = true;
}

/* With a model, and a conversation opened: `name`, or a new one for NULL. */
static inline void stage_start(struct stage *s, bool private_mode, const char *name)
{
    stage_init(s, true, private_mode);
    stage_open(s, name);
}

/* The path of a model file with this content. */
static inline const char *stage_model(struct maker *m)
{
    static char path[80];
    snprintf(path, sizeof path, "%s/model.gguf", stage_folder());
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(m->file.data, 1, m->file.n, f) != m->file.n || fclose(f)) abort();
    maker_release(m);
    return path;
}

/* A conversation of up to four turns. */
static inline void stage_talk(struct stage *s, int turns)
{
    static const char *const texts[] = {"first\r", "second\r", "third\r", "fourth\r"};
    stage_init(s, true, false);
    stage_list(s);
    stage_open(s, NULL);
    for (int i = 0; i < turns; i++) stage_type(s, texts[i]);
}

static inline const struct message *stage_message(const struct stage *s, int i)
{
    if (i >= s->app.talk.n) abort();
    return &s->app.talk.messages[i];
}

#endif
