/* The tasks of `retain eval`, as text: every question asks for a fact that was told, in the right
 * place, and a seed always gives the same text. */

#include "tests/test.h"

#include "quant/eval/task.h"

enum { LENGTH = 4000 };

/* A task played to the end. Tokens are words here. */
struct play {
    struct str told;   /* all text told */
    size_t ends[4096]; /* ends of turns in it */
    double depths[4096];
    int n_turns;
    int n_questions, n_missing; /* values that were not told before */
    char last_value[64];
};

static int64_t count_words(const char *text)
{
    int64_t n = 0;
    for (; *text; text++) n += *text == ' ';
    return n + 3;
}

static void play(const char *task, const struct task_args *args, struct play *p)
{
    const struct task *t = task_named(task);
    struct task_run *s = task_open(t, args);
    struct task_step step;
    int64_t n = 0;
    assert_non_null(s);
    *p = (struct play){0};
    while (task_next(s, n, &step)) {
        n += count_words(step.user);
        if (!step.assistant) {
            p->n_questions++;
            assert_true(step.n_values > 0);
            for (int i = 0; i < step.n_values; i++)
                p->n_missing += !strstr(str_get(&p->told), step.values[i]);
            snprintf(p->last_value, sizeof p->last_value, "%s", step.values[0]);
            continue;
        }
        assert_true(p->n_turns < 4096);
        p->depths[p->n_turns] = (double)(n - count_words(step.user)) / (double)args->length;
        n += count_words(step.assistant);
        str_printf(&p->told, "%s\n%s\n", step.user, step.assistant);
        p->ends[p->n_turns++] = p->told.n;
    }
    assert_false(task_next(s, n, &step));
    task_close(s);
}

static const char talks[] = "# two conversations\n"
                            "== first\n"
                            "> The gate code is 4417.\r\n"
                            "< Fine.\n"
                            "> What is the gate code?\n"
                            "? 4417\n"
                            "> It is now 9020.\n"
                            "> What is it now?\n"
                            "? 9020\n"
                            "\n"
                            "== second\n"
                            "> My cat is called Quill.\n"
                            "~ It rains.\n"
                            "~ It snows.\n"
                            "> Who is my cat?\n"
                            "? Quill";

static struct task_args args_of(const struct task *t, uint64_t seed)
{
    struct task_args a = {.seed = seed, .length = LENGTH, .n_facts = t->n_facts, .depth = 0.5};
    if (!strcmp(t->name, "talk")) a.essay = talks;
    return a;
}

TEST(test_what_is_asked_was_told)
{
    const struct task *t;
    for (int i = 0; (t = task_at(i)); i++)
        for (uint64_t seed = 1; t->write && seed <= 10; seed++) {
            struct task_args a = args_of(t, seed);
            struct play p;
            play(t->name, &a, &p);
            if (p.n_missing || !p.n_questions)
                fail_msg("%s, seed %d: %d values were never told", t->name, (int)seed, p.n_missing);
            str_release(&p.told);
        }
}

TEST(test_seeds)
{
    const struct task *t;
    for (int i = 0; (t = task_at(i)); i++) {
        if (!t->write) continue;
        struct task_args one = args_of(t, 1), two = args_of(t, 2);
        struct play a, b, c;
        play(t->name, &one, &a);
        play(t->name, &one, &b);
        play(t->name, &two, &c);
        assert_string_equal(str_get(&a.told), str_get(&b.told));
        assert_string_not_equal(str_get(&a.told), str_get(&c.told));
        str_release(&a.told);
        str_release(&b.told);
        str_release(&c.told);
    }
}

/* The needle is in the requested place, within the turn around it (a sixteenth). */
TEST(test_depth)
{
    static const char *const tasks[] = {"passkey", "niah"};
    for (int i = 0; i < 2; i++)
        for (int d = 0; d <= 4; d++) {
            struct task_args a = args_of(task_named(tasks[i]), 3);
            struct play p;
            int turn = 0;
            a.depth = d / 4.0;
            play(tasks[i], &a, &p);
            size_t at = (size_t)(strstr(str_get(&p.told), p.last_value) - str_get(&p.told));
            while (p.ends[turn] < at) turn++;
            assert_float_equal(p.depths[turn], a.depth, 0.1);
            str_release(&p.told);
        }
}

/* Ten facts at ten depths: one in each tenth. */
TEST(test_spread)
{
    const struct task *t = task_named("passkey");
    struct task_args a = {.seed = 1, .length = LENGTH, .n_facts = 10};
    struct task_run *s = task_open(t, &a);
    struct task_step q;
    struct play p;
    play("passkey", &a, &p);
    assert_int_equal(p.n_questions, 10);
    for (int i = 0; task_any_question(s, i, &q); i++) {
        int turn = 0;
        size_t at = (size_t)(strstr(str_get(&p.told), q.values[0]) - str_get(&p.told));
        while (p.ends[turn] < at) turn++;
        assert_int_equal((int)(p.depths[turn] * 10), i);
    }
    str_release(&p.told);
    task_close(s);
}

/* No two of the most codes have one name. */
TEST(test_many_codes)
{
    struct task_args a = {.seed = 1, .length = 8 * LENGTH, .n_facts = 64};
    struct task_run *s = task_open(task_named("passkey"), &a);
    assert_int_equal(s->n_questions, 64);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(str_get(&s->questions[i].text), str_get(&s->questions[k].text));
    task_close(s);
}

TEST(test_essay)
{
    struct task_args a = args_of(task_named("niah"), 2);
    struct play p;
    a.essay = "It was a dark night.\nNobody was there! Or was there?";
    play("niah", &a, &p);
    assert_non_null(
        strstr(str_get(&p.told), " Nobody was there! Or was there? It was a dark night."));
    str_release(&p.told);
    const char *essay = a.essay;
    a = args_of(task_named("recall"), 2);
    a.essay = essay;
    play("recall", &a, &p);
    assert_non_null(strstr(str_get(&p.told), "Nobody was there!"));
    str_release(&p.told);
}

/* The first conversation: a question has its place, what is told even depths, and replies that the
 * file does not have a default. */
TEST(test_talk)
{
    struct task_args a = args_of(task_named("talk"), 1);
    struct task_run *s = task_open(task_named("talk"), &a);
    struct task_step step;
    const char *const asked[] = {"What is the gate code?", "What is it now?"};
    const char *const values[] = {"4417", "9020"};
    assert_true(task_next(s, 0, &step));
    assert_string_equal(step.user, "The gate code is 4417.");
    assert_string_equal(step.assistant, "Fine.");
    assert_true(task_next(s, 0, &step) && step.assistant && !step.values); /* small talk */
    for (int i = 0; i < 2; i++) {
        assert_true(task_next(s, i ? LENGTH : LENGTH / 2, &step));
        assert_null(step.assistant);
        assert_string_equal(step.user, asked[i]);
        assert_string_equal(step.values[0], values[i]);
        if (i) break;
        assert_true(task_next(s, LENGTH / 2, &step));
        assert_string_equal(step.user, "It is now 9020.");
        assert_string_equal(step.assistant, "Okay, I will remember that.");
    }
    assert_false(task_next(s, LENGTH, &step));
    task_close(s);
    a.seed = 4; /* the second conversation again */
    s = task_open(task_named("talk"), &a);
    assert_true(task_next(s, 0, &step));
    assert_string_equal(step.user, "My cat is called Quill.");
    for (int i = 0; i < 5; i++) {
        assert_true(task_next(s, 1, &step) && step.assistant);
        assert_string_equal(step.user, i % 2 ? "It snows." : "It rains.");
    }
    task_close(s);
}

TEST(test_talk_is_checked)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no conversation"},
        {"# nothing\n", "no conversation"},
        {"> before a name\n", "line 1"},
        {"== a\n? value without a question\n", "line 2"},
        {"== a\n> b\n?\n", "line 3"},
        {"== a\n> b\n< c\n? d\n", "line 4"},
        {"== a\n\n> after its end\n", "line 3"},
        {"== a\nwords\n", "line 2"},
    };
    ok(task_talk_check(talks, &err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(task_talk_check(bad[i].text, &err), ERR_USAGE, bad[i].says);
    }
}
