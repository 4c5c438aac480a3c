/* convert: a Hugging Face folder (config.json, tokenizer, *.safetensors) as a source: its names,
 * hyper-parameters and vocabulary in the words of GGUF, as llama.cpp writes them.
 *
 * Families: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM,
 * Phi3ForCausalLM, MiniCPMForCausalLM. A tensor that no table knows, or one that is missing or of
 * another shape than the config says, is refused by name: nothing is guessed. */
#ifndef RETAIN_QUANT_CONVERT_CONVERT_H
#define RETAIN_QUANT_CONVERT_CONVERT_H

#include "quant/convert/source.h"

/* Fills `s`, whose path is the folder. */
int convert_open(struct source *s, struct err *e);

#endif
