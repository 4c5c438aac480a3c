/* heads_import: `retain heads import FILE -m MODEL --out H`: imports retaining heads from other
 * programs. FILE was written by torch.save (Locret's releases) or is a safetensors file, with
 * model.layers.N.self_attn.fc1.weight [n_hidden][n_in] and fc2.weight [n_kv_head][n_hidden] for
 * each layer, in F32, F16 or BF16. Their input is in the order of Hugging Face's projections, which
 * is also the runtime's (rotate half). The file is bound to the model by the model's digest, and
 * the shapes are checked; whether the heads were trained for this model cannot be checked. */
#ifndef RETAIN_QUANT_HEADS_HEADS_IMPORT_H
#define RETAIN_QUANT_HEADS_HEADS_IMPORT_H

struct options;

/* Returns an exit status, like all commands. args[1] is the file. */
int heads_import(const struct options *o);

#endif
