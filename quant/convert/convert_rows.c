#include "quant/convert/convert_parts.h"

const struct convert_family convert_families[] = {
    {"LlamaForCausalLM", "llama", LLAMA, true, false, NULL},
    {"MistralForCausalLM", "llama", LLAMA, true, false, NULL},
    {"MixtralForCausalLM", "llama", MIXTRAL, true, true, NULL},
    {"Qwen2ForCausalLM", "qwen2", QWEN2, false, false, NULL},
    {"Qwen3ForCausalLM", "qwen3", QWEN3, false, false, NULL},
    {"Phi3ForCausalLM", "phi3", PHI3, false, false, NULL},
    {"MiniCPMForCausalLM", "minicpm", MINICPM, true, false, NULL},
    {"GraniteForCausalLM", "granite", GRANITE, true, false, NULL},
    {"Olmo2ForCausalLM", "olmo2", OLMO2, false, false, NULL},
    {"Olmo3ForCausalLM", "olmo2", OLMO2, false, false, NULL},
    {"SmolLM3ForCausalLM", "smollm3", SMOLLM3, true, false, NULL},
    {"Ministral3ForCausalLM", "mistral3", MISTRAL3, true, false, NULL},
    {"Mistral3ForConditionalGeneration", "mistral3", MISTRAL3, true, false, ""},
    {"Ernie4_5ForCausalLM", "ernie4_5", ERNIE4_5, false, false, NULL},
    {"SeedOssForCausalLM", "seed_oss", SEED_OSS, false, false, NULL},
    {"Glm4ForCausalLM", "glm4", GLM4, false, false, NULL},
    {"Qwen3_5ForCausalLM", "qwen35", QWEN35, false, false, NULL},
    {"Qwen3_5ForConditionalGeneration", "qwen35", QWEN35, false, false, "model."},
    {"Qwen3_5MoeForCausalLM", "qwen35moe", QWEN35, false, true, NULL},
    {"Qwen3_5MoeForConditionalGeneration", "qwen35moe", QWEN35, false, true, "model."},
    {"Qwen3NextForCausalLM", "qwen3next", QWEN3NEXT, false, true, NULL},
    {"Gemma2ForCausalLM", "gemma2", GEMMA2, false, false, NULL},
    {"Gemma3ForCausalLM", "gemma3", GEMMA3, false, false, NULL},
    {"Gemma3ForConditionalGeneration", "gemma3", GEMMA3, false, false, ""},
    {"Exaone4ForCausalLM", "exaone4", EXAONE4, false, false, NULL},
    {"Cohere2ForCausalLM", "cohere2", COHERE2, false, false, NULL},
    {"GptOssForCausalLM", "gpt-oss", GPT_OSS, false, true, NULL},
    {"Gemma4ForCausalLM", "gemma4", GEMMA4, false, false, NULL},
    {"Gemma4ForConditionalGeneration", "gemma4", GEMMA4, false, false, "model."},
    {"Lfm2ForCausalLM", "lfm2", LFM2, false, false, NULL},
    {"Lfm2MoeForCausalLM", "lfm2moe", LFM2, false, true, NULL},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", GRANITE_H, true, false, NULL},
    {"FalconH1ForCausalLM", "falcon-h1", FALCON_H1, false, false, NULL},
    {"NemotronHForCausalLM", "nemotron_h", NEMOTRON_H, false, false, NULL},
    {"Qwen2MoeForCausalLM", "qwen2moe", QWEN2MOE, false, true, NULL},
    {"Qwen3MoeForCausalLM", "qwen3moe", QWEN3MOE, false, true, NULL},
    {"OlmoeForCausalLM", "olmoe", OLMOE, false, true, NULL},
    {"GraniteMoeForCausalLM", "granitemoe", GRANITEMOE, true, true, NULL},
    {"GraniteMoeSharedForCausalLM", "granitemoe", GRANITEMOE, true, true, NULL},
    {"Glm4MoeForCausalLM", "glm4moe", GLM4MOE, false, true, NULL},
    {"Dots1ForCausalLM", "dots1", DOTS1, false, true, NULL},
};
const size_t convert_n_families = sizeof convert_families / sizeof *convert_families;

/* Families with the usual names of some tensors. */
enum {
    MODEL_NORM = EVERY & ~(DELTA | GEMMA | LFM2 | FALCON_H1 | NEMOTRON_H),
    INPUT_NORM = NORMS_BEFORE | GRANITE_H | FALCON_H1 | COHERE2 | GPT_OSS | GEMMA4,
    DENSE_WINDOWED = WINDOWED & ~GPT_OSS,
    HEAD_NORMS = QWEN3 | EXAONE4 | QWEN3MOE | DOTS1,
    NORMS_BEHIND = OLMO2 | EXAONE4 | GEMMA4,
    Q_K_V = EVERY & ~(PHI3 | NEMOTRON_H),
    FEED_FORWARDS = GATE_AND_UP | QWEN35 | DENSE_WINDOWED | DENSE_FIRST,
    NORM_BETWEEN = (NORMS_BEFORE & ~(SEED_OSS | GLM4MOE)) | GRANITE_H,
};

const struct convert_row convert_rows[] = {
    {"model.embed_tokens.weight", "token_embd.weight", VOCAB, EMBD, EVERY & ~NEMOTRON_H,
     EVERY & ~NEMOTRON_H, .layers = NO_LAYER},
    {"model.norm.weight", "output_norm.weight", EMBD, ONE, MODEL_NORM, MODEL_NORM,
     .layers = NO_LAYER},
    {"lm_head.weight", "output.weight", VOCAB, EMBD, 0, EVERY, .layers = NO_LAYER},
    {"input_layernorm.weight", "attn_norm.weight", EMBD, ONE, INPUT_NORM, INPUT_NORM,
     .layers = LAYERS},
    {"self_attn.q_proj.weight", "attn_q.weight", Q, EMBD, Q_K_V & ~DELTA, Q_K_V & ~DELTA,
     .layers = ATTENTION},
    {"self_attn.q_proj.bias", "attn_q.bias", Q, ONE, QWEN2 | GPT_OSS, QKV_BIASES,
     .layers = ATTENTION},
    {"self_attn.k_proj.weight", "attn_k.weight", KV, EMBD, Q_K_V & ~GEMMA4, Q_K_V,
     .layers = ATTENTION},
    {"self_attn.k_proj.bias", "attn_k.bias", KV, ONE, QWEN2 | GPT_OSS, QKV_BIASES,
     .layers = ATTENTION},
    {"self_attn.v_proj.weight", "attn_v.weight", KV, EMBD, Q_K_V & ~GEMMA4, Q_K_V,
     .layers = ATTENTION},
    {"self_attn.v_proj.bias", "attn_v.bias", KV, ONE, QWEN2 | GPT_OSS, QKV_BIASES,
     .layers = ATTENTION},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight", QKV, EMBD, PHI3, PHI3, .layers = ATTENTION},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", HEAD, ONE, HEAD_NORMS | GEMMA4,
     HEAD_NORMS | GEMMA4 | GLM4MOE, .layers = ATTENTION},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEAD, ONE, HEAD_NORMS,
     HEAD_NORMS | GEMMA4 | GLM4MOE, .layers = ATTENTION},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", Q, ONE, OLMO2 | OLMOE, OLMO2 | OLMOE,
     .layers = ATTENTION},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", KV, ONE, OLMO2 | OLMOE, OLMO2 | OLMOE,
     .layers = ATTENTION},
    {"self_attn.o_proj.weight", "attn_output.weight", EMBD, Q, ALIKE, ALIKE, .layers = ATTENTION},
    {"self_attn.o_proj.bias", "attn_output.bias", EMBD, ONE, GPT_OSS,
     BIASES | OLMO2 | QWEN3 | GPT_OSS, .layers = ATTENTION},
    {"post_attention_layernorm.weight", "ffn_norm.weight", EMBD, ONE, NORM_BETWEEN, NORM_BETWEEN,
     .layers = LAYERS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE,
     SEED_OSS | GPT_OSS | GLM4MOE, SEED_OSS | GPT_OSS | GLM4MOE, .layers = LAYERS},
    {"post_self_attn_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, GLM4, GLM4,
     .layers = LAYERS},
    {"post_mlp_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, GLM4, GLM4, .layers = LAYERS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, NORMS_BEHIND,
     NORMS_BEHIND, .layers = LAYERS},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, NORMS_BEHIND,
     NORMS_BEHIND, .layers = LAYERS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", FF, EMBD, FEED_FORWARDS, FEED_FORWARDS,
     .layers = DENSE},
    {"mlp.gate_proj.bias", "ffn_gate.bias", FF, ONE, 0, BIASES, .layers = LAYERS},
    {"mlp.up_proj.weight", "ffn_up.weight", FF, EMBD, FEED_FORWARDS, FEED_FORWARDS,
     .layers = DENSE},
    {"mlp.up_proj.bias", "ffn_up.bias", FF, ONE, 0, BIASES, .layers = LAYERS},
    {"mlp.gate_up_proj.weight", "ffn_up.weight", FF2, EMBD, PHI3 | GLM4, PHI3 | GLM4,
     .layers = LAYERS},
    {"mlp.down_proj.weight", "ffn_down.weight", EMBD, FF, ALL | FEED_FORWARDS, ALL | FEED_FORWARDS,
     .layers = DENSE},
    {"mlp.down_proj.bias", "ffn_down.bias", EMBD, ONE, 0, BIASES, .layers = LAYERS},
/* Qwen3.5, Gemma: norms are x (1 + w) */
#define PLUS .change = SOURCE_PLUS_ONE
    {"model.norm.weight", "output_norm.weight", EMBD, ONE, DELTA | GEMMA, DELTA | GEMMA,
     .layers = NO_LAYER, PLUS},
    {"input_layernorm.weight", "attn_norm.weight", EMBD, ONE, DELTA | GEMMA, DELTA | GEMMA,
     .layers = LAYERS, PLUS},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, DELTA | GEMMA,
     DELTA | GEMMA, .layers = LAYERS, PLUS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", HEAD, ONE, DELTA | GEMMA3, DELTA | GEMMA3,
     .layers = ATTENTION, PLUS},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEAD, ONE, DELTA | GEMMA3, DELTA | GEMMA3,
     .layers = ATTENTION, PLUS},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", EMBD, ONE, GEMMA, GEMMA,
     .layers = LAYERS, PLUS},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, GEMMA, GEMMA,
     .layers = LAYERS, PLUS},
#undef PLUS
    {"self_attn.q_proj.weight", "attn_q.weight", Q2, EMBD, DELTA, DELTA, .layers = ATTENTION},
#define ROW(hf, gguf, n_out, n_in, f, ...)                                           \
    {                                                                                \
        "linear_attn." hf, gguf, n_out, n_in, f, f, .layers = RECURRENT, __VA_ARGS__ \
    }
    ROW("in_proj_qkv.weight", "attn_qkv.weight", CHANNELS, EMBD, QWEN35, .tiled = TILED_VALUES),
    ROW("in_proj_z.weight", "attn_gate.weight", VALUES, EMBD, QWEN35, .tiled = TILED),
    ROW("in_proj_b.weight", "ssm_beta.weight", HEADS, EMBD, QWEN35, .tiled = TILED),
    ROW("in_proj_a.weight", "ssm_alpha.weight", HEADS, EMBD, QWEN35, .tiled = TILED),
    ROW("in_proj_qkvz.weight", "attn_qkv.weight", MIXED, EMBD, QWEN3NEXT,
        .half = QUERIES_KEYS_VALUES),
    ROW("in_proj_qkvz.weight", "attn_gate.weight", MIXED, EMBD, QWEN3NEXT, .half = GATES),
    ROW("in_proj_ba.weight", "ssm_ba.weight", HEADS2, EMBD, QWEN3NEXT, .half = WHOLE),
    ROW("conv1d.weight", "ssm_conv1d.weight", CHANNELS, TAPS, DELTA, .tiled = TILED_VALUES),
    ROW("dt_bias", "ssm_dt.bias", HEADS, ONE, DELTA, .tiled = TILED),
    ROW("A_log", "ssm_a", HEADS, ONE, DELTA, .tiled = TILED, .change = SOURCE_MINUS_EXP),
    ROW("norm.weight", "ssm_norm.weight", VALUE, ONE, DELTA, .tiled = NOT_TILED),
    ROW("out_proj.weight", "ssm_out.weight", EMBD, VALUES, DELTA, .tiled = TILED_COLUMNS),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, which)                    \
    {                                                        \
        hf, gguf, n_out, n_in, LFM2, LFM2, .layers = (which) \
    }
    ROW("model.embedding_norm.weight", "token_embd_norm.weight", EMBD, ONE, NO_LAYER),
    ROW("operator_norm.weight", "attn_norm.weight", EMBD, ONE, LAYERS),
    ROW("ffn_norm.weight", "ffn_norm.weight", EMBD, ONE, LAYERS),
    ROW("self_attn.out_proj.weight", "attn_output.weight", EMBD, Q, ATTENTION),
    ROW("self_attn.q_layernorm.weight", "attn_q_norm.weight", HEAD, ONE, ATTENTION),
    ROW("self_attn.k_layernorm.weight", "attn_k_norm.weight", HEAD, ONE, ATTENTION),
    ROW("conv.in_proj.weight", "shortconv.in_proj.weight", EMBD3, EMBD, RECURRENT),
    ROW("conv.conv.weight", "shortconv.conv.weight", EMBD, TAPS, RECURRENT),
    ROW("conv.out_proj.weight", "shortconv.out_proj.weight", EMBD, EMBD, RECURRENT),
    ROW("feed_forward.w1.weight", "ffn_gate.weight", FF, EMBD, DENSE),
    ROW("feed_forward.w3.weight", "ffn_up.weight", FF, EMBD, DENSE),
    ROW("feed_forward.w2.weight", "ffn_down.weight", EMBD, FF, DENSE),
    ROW("feed_forward.gate.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, SPARSE),
    ROW("feed_forward.experts.*.w1.weight", "ffn_gate_exps.weight", EXPERT_FF, EMBD, SPARSE),
    ROW("feed_forward.experts.*.w3.weight", "ffn_up_exps.weight", EXPERT_FF, EMBD, SPARSE),
    ROW("feed_forward.experts.*.w2.weight", "ffn_down_exps.weight", EMBD, EXPERT_FF, SPARSE),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, needed, allowed, ...)                         \
    {                                                                            \
        hf, gguf, n_out, n_in, needed, allowed, .layers = RECURRENT, __VA_ARGS__ \
    }
#define SCAN(at, f, with_norm)                                                                  \
    ROW(at "in_proj.weight", "ssm_in.weight", IN, EMBD, f, f, .half = WHOLE),                   \
        ROW(at "conv1d.weight", "ssm_conv1d.weight", CHANNELS, TAPS, f, f, .half = WHOLE),      \
        ROW(at "conv1d.bias", "ssm_conv1d.bias", CHANNELS, ONE, f, f, .half = WHOLE),           \
        ROW(at "dt_bias", "ssm_dt.bias", HEADS, ONE, f, f, .half = WHOLE),                      \
        ROW(at "A_log", "ssm_a", HEADS, ONE, f, f, .change = SOURCE_MINUS_EXP, .column = true), \
        ROW(at "D", "ssm_d", HEADS, ONE, f, f, .column = true),                                 \
        ROW(at "norm.weight", "ssm_norm.weight", VALUES, ONE, with_norm, f, .half = WHOLE),     \
        ROW(at "out_proj.weight", "ssm_out.weight", EMBD, VALUES, f, f, .half = WHOLE)
    SCAN("mamba.", GRANITE_H | FALCON_H1, GRANITE_H),
    SCAN("mixer.", NEMOTRON_H, NEMOTRON_H),
#undef SCAN
#undef ROW
#define ROW(hf, gguf, n_out, n_in, family, which, ...)                        \
    {                                                                         \
        hf, gguf, n_out, n_in, family, family, .layers = (which), __VA_ARGS__ \
    }
    ROW("shared_mlp.input_linear.weight", "ffn_gate.weight", FF2, EMBD, GRANITE_H, DENSE,
        .half = FIRST),
    ROW("shared_mlp.input_linear.weight", "ffn_up.weight", FF2, EMBD, GRANITE_H, DENSE,
        .half = SECOND),
    ROW("shared_mlp.output_linear.weight", "ffn_down.weight", EMBD, FF, GRANITE_H, DENSE,
        .half = WHOLE),
#define GRANITES (GRANITEMOE | GRANITE_H)
    ROW("block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, GRANITES,
        SPARSE, .half = WHOLE),
    ROW("block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", EXPERT_FF, EMBD, GRANITES,
        SPARSE, .stacked = STACKED_FIRST),
    ROW("block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", EXPERT_FF, EMBD, GRANITES,
        SPARSE, .stacked = STACKED_SECOND),
    ROW("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", EMBD, EXPERT_FF, GRANITES,
        SPARSE, .stacked = STACKED),
    ROW("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERT_FF, EMBD, QWEN35, SPARSE,
        .stacked = STACKED_FIRST),
    ROW("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERT_FF, EMBD, QWEN35, SPARSE,
        .stacked = STACKED_SECOND),
    ROW("mlp.experts.down_proj", "ffn_down_exps.weight", EMBD, EXPERT_FF, QWEN35, SPARSE,
        .stacked = STACKED),
#undef GRANITES
#undef ROW
/* tensors that some models have */
#define ROW(hf, gguf, n_out, n_in, family, which, ...)                   \
    {                                                                    \
        hf, gguf, n_out, n_in, 0, family, .layers = (which), __VA_ARGS__ \
    }
    ROW("feed_forward.expert_bias", "exp_probs_b.bias", N_EXPERTS, ONE, LFM2, SPARSE,
        .half = WHOLE),
    ROW("shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", SHARED_FF2, EMBD,
        GRANITEMOE | GRANITE_H, SPARSE, .half = FIRST),
    ROW("shared_mlp.input_linear.weight", "ffn_up_shexp.weight", SHARED_FF2, EMBD,
        GRANITEMOE | GRANITE_H, SPARSE, .half = SECOND),
    ROW("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", EMBD, SHARED_FF,
        GRANITEMOE | GRANITE_H, SPARSE, .half = WHOLE),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, family, which)              \
    {                                                          \
        hf, gguf, n_out, n_in, family, family, .layers = which \
    }
    ROW("model.final_layernorm.weight", "output_norm.weight", EMBD, ONE, FALCON_H1, NO_LAYER),
    ROW("pre_ff_layernorm.weight", "ffn_norm", EMBD, ONE, FALCON_H1, LAYERS),
    ROW("feed_forward.gate_proj.weight", "ffn_gate.weight", FF, EMBD, FALCON_H1, LAYERS),
    ROW("feed_forward.up_proj.weight", "ffn_up.weight", FF, EMBD, FALCON_H1, LAYERS),
    ROW("feed_forward.down_proj.weight", "ffn_down.weight", EMBD, FF, FALCON_H1, LAYERS),
    ROW("backbone.embeddings.weight", "token_embd.weight", VOCAB, EMBD, NEMOTRON_H, NO_LAYER),
    ROW("backbone.norm_f.weight", "output_norm.weight", EMBD, ONE, NEMOTRON_H, NO_LAYER),
    ROW("norm.weight", "attn_norm.weight", EMBD, ONE, NEMOTRON_H, LAYERS),
    ROW("mixer.q_proj.weight", "attn_q.weight", Q, EMBD, NEMOTRON_H, ATTENTION),
    ROW("mixer.k_proj.weight", "attn_k.weight", KV, EMBD, NEMOTRON_H, ATTENTION),
    ROW("mixer.v_proj.weight", "attn_v.weight", KV, EMBD, NEMOTRON_H, ATTENTION),
    ROW("mixer.o_proj.weight", "attn_output.weight", EMBD, Q, NEMOTRON_H, ATTENTION),
    ROW("mixer.up_proj.weight", "ffn_up.weight", FF, EMBD, NEMOTRON_H, FEED_FORWARD),
    ROW("mixer.down_proj.weight", "ffn_down.weight", EMBD, FF, NEMOTRON_H, FEED_FORWARD),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, families)                        \
    {                                                               \
        hf, gguf, n_out, n_in, families, families, .layers = SPARSE \
    }
#define QWENS (QWEN2MOE | QWEN3MOE | OLMOE | DELTA | DENSE_FIRST)
    ROW("mlp.gate.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, QWENS),
    ROW("mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", EXPERT_FF, EMBD, QWENS),
    ROW("mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", EXPERT_FF, EMBD, QWENS),
    ROW("mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", EMBD, EXPERT_FF, QWENS),
#undef QWENS
#define SHARED(name, f)                                                        \
    ROW(name "gate_proj.weight", "ffn_gate_shexp.weight", SHARED_FF, EMBD, f), \
        ROW(name "up_proj.weight", "ffn_up_shexp.weight", SHARED_FF, EMBD, f), \
        ROW(name "down_proj.weight", "ffn_down_shexp.weight", EMBD, SHARED_FF, f)
    SHARED("mlp.shared_expert.", QWEN2MOE | DELTA),
    SHARED("mlp.shared_experts.", DENSE_FIRST),
#undef SHARED
    ROW("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", ONE, EMBD, QWEN2MOE | DELTA),
    ROW("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", N_EXPERTS, ONE, DENSE_FIRST),
    ROW("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, MIXTRAL),
    ROW("block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", EXPERT_FF, EMBD, MIXTRAL),
    ROW("block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", EXPERT_FF, EMBD, MIXTRAL),
    ROW("block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", EMBD, EXPERT_FF, MIXTRAL),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, families)                        \
    {                                                               \
        hf, gguf, n_out, n_in, families, families, .layers = LAYERS \
    }
    ROW("mlp.router.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, GPT_OSS),
    ROW("mlp.router.bias", "ffn_gate_inp.bias", N_EXPERTS, ONE, GPT_OSS),
    ROW("self_attn.sinks", "attn_sinks.weight", Q_HEADS, ONE, GPT_OSS),
    ROW("pre_feedforward_layernorm.weight", "ffn_norm.weight", EMBD, ONE, GEMMA4),
    ROW("layer_scalar", "layer_output_scale.weight", ONE, ONE, GEMMA4),
#undef ROW
/* Gemma 4's inputs per layer, which small models have, and its experts, which one has */
#define ROW(hf, gguf, n_out, n_in, ...)               \
    {                                                 \
        hf, gguf, n_out, n_in, 0, GEMMA4, __VA_ARGS__ \
    }
    ROW("model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", VOCAB, INPUTS,
        .layers = NO_LAYER),
    ROW("model.per_layer_model_projection.weight", "per_layer_model_proj.weight", INPUTS, EMBD,
        .layers = NO_LAYER),
    ROW("model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", INPUT, ONE,
        .layers = NO_LAYER),
    ROW("per_layer_input_gate.weight", "inp_gate.weight", INPUT, EMBD, .layers = LAYERS),
    ROW("per_layer_projection.weight", "proj.weight", EMBD, INPUT, .layers = LAYERS),
    ROW("post_per_layer_input_norm.weight", "post_norm.weight", EMBD, ONE, .layers = LAYERS),
    ROW("router.proj.weight", "ffn_gate_inp.weight", N_EXPERTS, EMBD, .layers = LAYERS),
    ROW("router.scale", "ffn_gate_inp.scale", EMBD, ONE, .layers = LAYERS),
    ROW("router.per_expert_scale", "ffn_down_exps.scale", N_EXPERTS, ONE, .layers = LAYERS),
    ROW("post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", EMBD, ONE,
        .layers = LAYERS),
    ROW("post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", EMBD, ONE,
        .layers = LAYERS),
    ROW("pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", EMBD, ONE, .layers = LAYERS),
    ROW("experts.gate_up_proj", "ffn_gate_up_exps.weight", EXPERT_FF2, EMBD, .layers = LAYERS,
        .stacked = STACKED),
    ROW("experts.down_proj", "ffn_down_exps.weight", EMBD, EXPERT_FF, .layers = LAYERS,
        .stacked = STACKED),
#undef ROW
#define ROW(hf, gguf, n_out, n_in, how)                                                    \
    {                                                                                      \
        hf, gguf, n_out, n_in, GPT_OSS, GPT_OSS, .layers = LAYERS, .stacked = STACKED##how \
    }
    ROW("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERT_FF, EMBD, _EVEN),
    ROW("mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", EXPERT_FF, ONE, _EVEN),
    ROW("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERT_FF, EMBD, _ODD),
    ROW("mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", EXPERT_FF, ONE, _ODD),
    ROW("mlp.experts.down_proj", "ffn_down_exps.weight", EMBD, EXPERT_FF, _COLUMNS),
    ROW("mlp.experts.down_proj_bias", "ffn_down_exps.bias", EMBD, ONE, _COLUMNS),
#undef ROW
};
const size_t convert_n_rows = sizeof convert_rows / sizeof *convert_rows;
