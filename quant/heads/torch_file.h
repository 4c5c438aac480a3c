/* torch_file: the tensors of a file written by PyTorch's torch.save: a zip archive, uncompressed,
 * with a pickle (data.pkl) that names the tensors and one member per storage (data/KEY).
 *
 * A pickle is a program. This reader knows the few instructions that dictionaries and lists of
 * tensors need and executes nothing: names of classes are compared with a list, calls only describe
 * tensors, arrays of NumPy are skipped, everything else is refused by name. A tensor in nested
 * dictionaries and lists has the keys on the way to it as its name, joined by dots. Every length
 * and offset is checked against the real size of the file. Formats: PKWARE APPNOTE 6.3, Python's
 * pickletools, torch/serialization.py. */
#ifndef RETAIN_QUANT_HEADS_TORCH_FILE_H
#define RETAIN_QUANT_HEADS_TORCH_FILE_H

#include <stdbool.h>

#include "quant/convert/safetensors.h"

struct torch_file;

/* Whether the bytes begin like such a file. */
bool torch_file_is(const void *bytes, size_t n);

/* The caller keeps the bytes; tensors point into them. `name` is used in messages. */
int torch_file_open(struct torch_file **out, const void *bytes, size_t n, const char *name,
                    struct err *e);
void torch_file_close(struct torch_file *f);

size_t torch_file_n(const struct torch_file *f);
const struct safetensors_tensor *torch_file_find(const struct torch_file *f, const char *name);

#endif
