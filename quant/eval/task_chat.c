/* Conversations: facts told at the start, or at even depths. */
#include "quant/eval/task.h"
#include "quant/eval/task_words.h"

const char *task_fill_small_talk(struct task_run *s)
{
    const struct words_turn *t = words_filler(s->recall);
    str_puts(&s->user, t->user);
    return t->assistant;
}

static void tell(struct task_run *s, double depth, const struct words_turn *t)
{
    str_puts(&task_tell(s, depth, t->assistant)->user, t->user);
}

static void ask(struct task_run *s, struct task_question *q, int i)
{
    const char *question, *answer, *value;
    words_question(s->recall, i, &question, &answer, &value);
    str_puts(&q->text, question);
    str_puts(task_value(q), value);
}

void task_write_recall(struct task_run *s)
{
    s->filler = s->args.essay ? task_fill_essay : task_fill_small_talk;
    for (int i = 0; i < s->args.n_facts; i++) tell(s, 0, words_fact(s->recall, i));
    for (int i = 0; i < s->args.n_facts; i++) ask(s, task_ask(s), i);
}

void task_write_scatter(struct task_run *s)
{
    s->filler = task_fill_noise;
    for (int i = 0; i < s->args.n_facts; i++) {
        tell(s, task_depth(s, i), words_fact(s->recall, i));
        ask(s, task_ask(s), i);
    }
}
