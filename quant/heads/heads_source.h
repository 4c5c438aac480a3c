/* heads_source: the retaining heads that others released: how their files name the tensors, which
 * form the network has, and the settings that their authors use.
 *
 *   Locret      model.layers.N.self_attn.fc{1,2}.weight
 *   KVzap       layers.N.{0,2}.{weight,bias} or layers.N.{weight,bias}
 *   Fast KVzip  module.N.{q_proj.weight, q_proj.bias, k_proj.weight, q_norm.weight, k_norm.weight,
 *               k_base, b}
 *
 * KVzap's files are safetensors; to_safetensors.py converts those that torch.save wrote.
 *
 * N counts the layers with attention to all units; numbers are F32, F16 or BF16. q, k and v are in
 * the order of Hugging Face's projections, which is also the runtime's (rotate half). Sources:
 * github.com/huangyuxiang03/Locret, NVIDIA/kvpress (kvzap_press.py), Janghyun1230/FastKVzip
 * (gate.py). */
#ifndef RETAIN_QUANT_HEADS_HEADS_SOURCE_H
#define RETAIN_QUANT_HEADS_HEADS_SOURCE_H

#include "quant/convert/safetensors.h"
#include "runtime/model/retaining.h"

#define HEADS_SOURCE_PIECES 7

/* A tensor of a layer: consecutive pieces with the same part are its rows, one after another. */
struct heads_piece {
    enum retaining_part part;
    const char *name; /* with %d for the layer */
};

struct heads_source {
    const char *author; /* for messages and the heads' file */
    enum retaining_form form;
    bool compares; /* its scores are logarithms of shares of attention in every head */
    struct heads_piece pieces[HEADS_SOURCE_PIECES]; /* the first one tells it from other sources */
};

/* An opened file. */
struct heads_tensors {
    const char *path;
    struct safetensors *safetensors;
};

/* The source whose tensors a file has. ERR_FORMAT: it has the tensors of no known source. */
const struct heads_source *heads_source_of(const struct heads_tensors *t, struct err *e);

/* The shape of the heads, from the tensors of the first layer and the model. */
int heads_source_shape(const struct heads_source *s, const struct heads_tensors *t,
                       const struct model *m, struct retaining_shape *out, struct err *e);

/* The tensor of piece i of a layer. ERR_FORMAT unless it has the shape that the model needs. */
int heads_source_bind(const struct heads_source *s, const struct heads_tensors *t,
                      const struct retaining_shape *shape, const struct model *m, int layer, int i,
                      const struct safetensors_tensor **out, struct err *e);

/* The settings that the authors use for this model. */
struct retaining_settings heads_source_settings(const struct heads_source *s,
                                                const struct model *m);

#endif
