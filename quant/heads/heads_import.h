/* heads_import: `retain heads import FILE -m MODEL --out H`: imports retaining heads that others
 * released (heads_source.h), from a safetensors file. The file is bound to the model by the model's
 * digest, and the shapes are checked; whether the heads were trained for this model cannot be
 * checked. With --text or --data, heads whose scores do not compare are calibrated
 * (heads_calibrate.h). */
#ifndef RETAIN_QUANT_HEADS_HEADS_IMPORT_H
#define RETAIN_QUANT_HEADS_HEADS_IMPORT_H

struct options;

/* Returns an exit status, like all commands. args[1] is the file. */
int heads_import(const struct options *o);

#endif
