/* convert: reads a Hugging Face folder (config.json, tokenizer, *.safetensors) as a source and
 * translates its names, hyper-parameters and vocabulary to GGUF, as llama.cpp does.
 *
 * Families: convert_rows.c. Unknown tensors, missing tensors and tensors of another
 * shape than the config says are refused by name: nothing is guessed. */
#ifndef RETAIN_QUANT_CONVERT_CONVERT_H
#define RETAIN_QUANT_CONVERT_CONVERT_H

#include "quant/convert/source.h"

/* Fills `s`, whose path is the folder. */
int convert_open(struct source *s, struct err *e);

#endif
