#include "runtime/model/demo.h"

#include "base/embed.h"

EMBED(demo_model, "quant/demo/retain-demo.gguf");
EMBED(demo_heads, "quant/demo/retain-demo-heads.gguf");
