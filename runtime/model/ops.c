/* The operations of a layer, in their order. */
#include <assert.h>

#include "runtime/model/model.h"
#include "runtime/model/recurrent.h"

static struct model_op *add(struct model_layer *l, enum model_op_kind kind)
{
    assert(l->n_ops < MODEL_OPS_MAX);
    l->ops[l->n_ops] = (struct model_op){.kind = kind};
    return &l->ops[l->n_ops++];
}

static void add_output(struct model_layer *l, enum model_op_kind from, const struct kn_weight *w,
                       const float *const *bias, const float *const *norm)
{
    static const float *const none = NULL;
    *add(l, MODEL_ADD) = (struct model_op){MODEL_ADD, from, w, bias ? bias : &none, norm};
}

/* Adds what attention and the recurrent part computed: both have read the same x. */
static void add_mixers(struct model_layer *l)
{
    const enum model_op_kind from = l->latent.value.n_out ? MODEL_VALUES : MODEL_ATTEND;
    if (!l->no_attention) add_output(l, from, &l->o, &l->o_bias, &l->attn_post_norm);
    if (l->is_recurrent) add_output(l, MODEL_RECUR, &l->recurrent.out, NULL, &l->attn_post_norm);
}

static void add_feed_forward(struct model_layer *l)
{
    if (l->no_feed_forward) return;
    if (l->experts.n) {
        add(l, MODEL_EXPERTS);
        return;
    }
    add(l, l->activation == MODEL_SQUARED_RELU ? MODEL_RELU2 : MODEL_GATE);
    add_output(l, MODEL_GATE, &l->down, &l->down_bias, &l->ffn_post_norm);
}

static void list_layer(const struct model *m, struct model_layer *l)
{
    l->n_ops = 0;
    if (l->is_recurrent) add(l, MODEL_RECUR);
    if (!l->no_attention) add(l, m->latent.rank ? MODEL_LATENT : MODEL_QKV);
    if (!l->no_attention) add(l, MODEL_ATTEND);
    if (!l->no_attention && m->latent.rank) add(l, MODEL_VALUES);
    if (!l->is_parallel) add_mixers(l);
    add_feed_forward(l);
    if (l->is_parallel) add_mixers(l);
    if (m->layer_inputs.n) add(l, MODEL_INPUT);
    if (m->layer_inputs.n) add_output(l, MODEL_GATE, &l->input_out, NULL, &l->input_norm);
    if (l->is_scaled) add(l, MODEL_SCALE);
    if (m->is_centred) add(l, MODEL_CENTRE);
}

void model_list_ops(struct model *m)
{
    for (int i = 0; i < m->n_layer; i++) list_layer(m, &m->layers[i]);
    if (m->mtp.layer) list_layer(m, m->mtp.layer);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

struct model_widths model_widths(const struct model *m)
{
    const struct model_heads h = model_heads(m, false), w = model_heads(m, m->windowed.n_layer > 0);
    struct model_widths n = {larger(heads_n_q(&h), heads_n_q(&w)),
                             larger(heads_n_qkv(&h), heads_n_qkv(&w)), m->layer_inputs.n, 0};
    for (int i = 0; i < m->n_layer; i++) n.ff = larger(n.ff, m->layers[i].gate.n_out);
    n.in = larger(larger(n.ff, m->n_embd), larger(n.q, recurrent_n_out(&m->recurrent)));
    n.in = larger(n.in, larger(m->latent.q_rank, m->n_head * m->latent.n_value));
    return n;
}
