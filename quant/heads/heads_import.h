/* heads_import: `retain heads import FILE -m MODEL --out H`: imports retaining heads that others
 * released, from a safetensors file (to_safetensors.py converts those that torch.save wrote). The
 * file is bound to the model by the model's digest, and the shapes are checked; whether the heads
 * were trained for this model cannot be checked. With --text or --data, heads whose scores do not
 * compare are calibrated (heads_calibrate.h). A table has the names of the tensors, the form of the
 * network and the authors' settings:
 *
 *   Locret      model.layers.N.self_attn.fc{1,2}.weight
 *   KVzap       layers.N.{0,2}.{weight,bias} or layers.N.{weight,bias}
 *   Fast KVzip  module.N.{q_proj.weight, q_proj.bias, k_proj.weight, q_norm.weight, k_norm.weight,
 *               k_base, b}
 *
 * N counts the layers with attention to all units; numbers are F32, F16 or BF16. q, k and v are in
 * the order of Hugging Face's projections, which is also the runtime's (rotate half). Sources:
 * github.com/huangyuxiang03/Locret, NVIDIA/kvpress (kvzap_press.py), Janghyun1230/FastKVzip
 * (gate.py). */
#ifndef RETAIN_QUANT_HEADS_HEADS_IMPORT_H
#define RETAIN_QUANT_HEADS_HEADS_IMPORT_H

struct options;

/* Returns an exit status, like all commands. args[1] is the file. */
int heads_import(const struct options *o);

#endif
