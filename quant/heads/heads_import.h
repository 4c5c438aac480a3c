/* heads_import: `retain heads import FILE -m MODEL --out H`: retaining heads from elsewhere. FILE
 * is what torch.save wrote (Locret's releases) or a safetensors file, with
 * model.layers.N.self_attn.fc1.weight [n_hidden][n_in] and fc2.weight [n_kv_head][n_hidden] for
 * each layer, in F32, F16 or BF16. Their input is in the order of Hugging Face's projections, which
 * is the runtime's (rotate half). They are bound to the model by its digest, the shapes are
 * checked; that they were trained for it only the person knows. */
#ifndef RETAIN_QUANT_HEADS_HEADS_IMPORT_H
#define RETAIN_QUANT_HEADS_HEADS_IMPORT_H

struct options;

/* An exit status, as all commands. args[1] is the file. */
int heads_import(const struct options *o);

#endif
