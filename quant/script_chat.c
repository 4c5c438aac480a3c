/* Conversations: recall, updates, and a game. */
#include "quant/recall.h"
#include "quant/script.h"

static void fill_small_talk(struct script *s, struct script_step *out)
{
    const struct recall_turn *t = recall_filler(s->recall);
    out->user = t->user;
    out->assistant = t->assistant;
}

static void tell(struct script *s, double depth, const struct recall_turn *t)
{
    str_puts(&script_tell(s, depth, t->assistant)->user, t->user);
}

static void ask(struct script *s, struct script_question *q, int i)
{
    const char *question, *answer, *value;
    recall_question(s->recall, i, &question, &answer, &value);
    str_puts(&q->text, question);
    str_puts(script_value(q), value);
}

void script_write_recall(struct script *s)
{
    s->filler = fill_small_talk;
    for (int i = 0; i < s->args.n_facts; i++) tell(s, 0, recall_fact(s->recall, i));
    for (int i = 0; i < s->args.n_facts; i++) ask(s, script_ask(s), i);
}

void script_write_scatter(struct script *s)
{
    s->filler = script_fill_noise;
    for (int i = 0; i < s->args.n_facts; i++) {
        tell(s, script_depth(s, i), recall_fact(s->recall, i));
        ask(s, script_ask(s), i);
    }
}

void script_write_updates(struct script *s)
{
    s->filler = fill_small_talk;
    if (s->args.n_facts > SCRIPT_QUESTIONS_MAX / 2) s->args.n_facts = SCRIPT_QUESTIONS_MAX / 2;
    for (int i = 0; i < s->args.n_facts; i++) tell(s, 0, recall_fact(s->recall, i));
    for (int i = 0; i < s->args.n_facts; i++) ask(s, script_ask_early(s, 1 / 3.0), i);
    for (int i = 0; i < s->args.n_facts; i += 2) tell(s, 2 / 3.0, recall_update(s->recall, i));
    for (int i = 0; i < s->args.n_facts; i++) ask(s, script_ask(s), i);
}

/* ---- rock, paper, scissors ---------------------------------------------------------------------
 */

/* Moves are drawn anew each time: rock .50, paper .31, scissors .19, turned by the seed, as in
 * SirLLM's data. Answering the preferred one always wins half the rounds; chance wins a third. */
static void fill_round(struct script *s, struct script_step *out)
{
    static const char *const moves[] = {"rock", "paper", "scissors", NULL};
    static const char *const beaten_by[] = {"paper", "scissors", "rock"};
    double x = script_uniform(s);
    int kind = (x >= .50) + (x >= .81), next = (kind + (int)(s->args.seed % 3)) % 3;
    if (s->n_told++ == 0)
        str_puts(&s->user, "Let's play a game of rock, paper, scissors.");
    else
        str_printf(
            &s->user,
            "I chose %s. Analyze my preferences to maximize your winning rate and proceed to "
            "the next round.",
            moves[s->last]);
    str_puts(&s->user, " You choose: rock, paper or scissors?");
    s->last = next;
    out->user = str_get(&s->user);
    out->values = &beaten_by[next];
    out->n_values = 1;
    out->choices = moves;
}

void script_write_game(struct script *s)
{
    s->filler = fill_round;
}
