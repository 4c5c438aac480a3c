/* demo: the small model that is part of the program, and its retaining heads, so that `retain` can
 * chat without a download. Made by quant/demo; GGUF bytes, aligned to 64. */
#ifndef RETAIN_RUNTIME_MODEL_DEMO_H
#define RETAIN_RUNTIME_MODEL_DEMO_H

extern const unsigned char demo_model[], demo_model_end[];
extern const unsigned char demo_heads[], demo_heads_end[];

#define DEMO_MODEL_SHORT "demo" /* for -m */
#define DEMO_MODEL_TITLE "retain demo"
#define DEMO_MODEL_NAME  "the demo model"
#define DEMO_HEADS_NAME  "the demo model's heads"

#endif
