#!/usr/bin/env python3
"""Writes the table of families in docs/conformance.md: what each family passed.

Three random models of unlike shapes of each family, saved as folders by transformers, with numbers
that int8 holds exactly, and their logits of 300 tokens, with floats and in chunks of 1, 7 and 128,
against transformers in double precision: of the folder through `retain quantize --type q8`, of the
file of llama.cpp's converter, and on the emulated GPU against the CPU, in units of what a cache of
halves costs the CPU. Needs PyTorch, transformers 5, llama.cpp's source and `make build/tests/logits`;
the GPU `make T=emu/layers`.

    quant/eval/families.py LLAMA.CPP FOLDER [FAMILY…]    FOLDER: for models; an hour
"""
import json, math, os, random, shutil, subprocess, sys
from pathlib import Path

LLAMA, LAB = Path(sys.argv[1]), Path(sys.argv[2])
TREE = Path(__file__).resolve().parents[2]
VOCAB, TOKENS = 300, 300
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]


def convert(folder, out):
    """llama.cpp's converter, with a vocabulary of bytes."""
    import gguf, torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    settings = ModelBase.load_hparams(folder, False)
    if "NemotronH" in str(settings.get("architectures")):  # without transformers' defaults
        settings = json.loads((folder / "config.json").read_text())
        settings.pop("layers_block_type", None)
        ModelBase.load_hparams = staticmethod(lambda *a, **k: dict(settings))
    cls = get_model_class(get_model_architecture(settings, ModelType.TEXT))

    def set_vocab(self):
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        symbols = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
        w = self.gguf_writer
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("qwen2")
        w.add_token_list(symbols + [f"<|{i}|>" for i in range(256, VOCAB - 1)] + ["ab"])
        w.add_token_types([1] * 256 + [3] * (VOCAB - 257) + [1])
        w.add_token_merges(["a b"])
        w.add_eos_token_id(256)

    for c in (cls, getattr(cls, "Ministral3Model", cls), getattr(cls, "Mistral4Model", cls)):
        c.set_vocab = set_vocab
    cls.no_mtp = True
    with torch.inference_mode():
        m = cls(folder, gguf.LlamaFileType.ALL_F32, out, eager=True)
        if settings.get("model_type") == "mistral4":  # written from Mistral's own format only
            m.impl.gguf_writer.add_attn_temperature_scale(settings["rope_parameters"]["llama_4_scaling_beta"])
        m.write()


if sys.argv[3:4] == ["--convert"]:
    convert(LAB, Path(sys.argv[4]))
    sys.exit()

import numpy as np
import torch
single = torch.float32
import safetensors.torch
# transformers' own single-precision parts run in double
torch.Tensor.float = torch.Tensor.double
torch.float = torch.float32 = torch.float64
torch.set_default_dtype(torch.float64)
import transformers


class Shape:
    def __init__(self, name, seed):
        self.r = random.Random(f"{name}{seed}")
        self.seed = seed

    def of(self, *xs):
        return self.r.choice(xs)

    def base(self, head_dim=True, **more):
        n_kv = self.of(1, 2, 3)
        n_head = n_kv * self.of(1, 2, 3)
        dim = self.of(16, 32, 48, 64)
        out = dict(hidden_size=self.of(32, 64, 96, 160), intermediate_size=self.of(32, 64, 96, 224),
                   num_hidden_layers=self.of(2, 3, 4), num_attention_heads=n_head,
                   num_key_value_heads=n_kv, rms_norm_eps=self.of(1e-5, 1e-6),
                   tie_word_embeddings=self.of(True, False))
        if head_dim:
            out["head_dim"] = dim
            while out["hidden_size"] % n_head:
                out["hidden_size"] += 32
        else:
            while n_head * dim % 32:
                dim *= 2
            out["hidden_size"] = n_head * dim
        return out | more

    def rope(self, **more):
        return dict(rope_parameters=dict(rope_type="default", rope_theta=self.of(1e4, 5e5, 1e6)) | more)

    def moe(self, n="num_experts", ff=True, **more):
        k = self.of(5, 6, 8, 9)
        out = {n: k, "num_experts_per_tok": self.of(2, 3, 4)}
        if ff:
            out["moe_intermediate_size"] = self.of(32, 64, 96)
        return out | more


def every(n, step, full="full_attention", other="sliding_attention"):
    return [full if (i + 1) % step == 0 else other for i in range(n)]


def yarn(s, **more):
    return s.rope(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0,
                  original_max_position_embeddings=128, **more)


KINDS = {}


def kind(name, cls, parts=""):
    def take(f):
        KINDS[name] = (cls, f, parts)
        return f
    return take


@kind("llama", "Llama")
def llama(s):
    return s.base(attention_bias=s.of(True, False)) | s.rope()


@kind("llama, RoPE scaled", "Llama", "linear, Llama 3, YaRN")
def llama_rope(s):
    return s.base(mlp_bias=True) | [
        s.rope(rope_type="linear", factor=4.0),
        s.rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=96), yarn(s)][s.seed]


@kind("Mistral (llama)", "Mistral")
def mistral(s):
    return s.base(sliding_window=None) | s.rope()


@kind("phi3", "Phi3", "fused matrices, LongRoPE")
def phi3(s):
    c = s.base(head_dim=False, pad_token_id=0, sliding_window=None)
    if s.seed == 0:
        return c | s.rope()
    half = c["hidden_size"] // c["num_attention_heads"] // 2
    grow = lambda a, b: [a * (b / a) ** (i / (half - 1)) for i in range(half)]
    return c | dict(original_max_position_embeddings=[0, 128, 320][s.seed]) | s.rope(
        rope_type="longrope", short_factor=grow(1, 1.3), long_factor=grow(1.1, 6),
        original_max_position_embeddings=[0, 128, 320][s.seed])


@kind("qwen2", "Qwen2")
def qwen2(s):
    return s.base(head_dim=False) | s.rope()


@kind("qwen3", "Qwen3")
def qwen3(s):
    return s.base(attention_bias=s.of(True, False)) | s.rope()


@kind("minicpm", "MiniCPM", "three scales")
def minicpm(s):
    return s.base(head_dim=False, scale_emb=s.of(12, 8), scale_depth=1.4, dim_model_base=s.of(32, 64)) | s.rope()


@kind("granite", "Granite", "four scales")
def granite(s):
    return s.base(head_dim=False, embedding_multiplier=6.0, residual_multiplier=0.22,
                  logits_scaling=s.of(4.0, 8.0), attention_multiplier=s.of(0.11, 0.3)) | s.rope()


@kind("olmo2", "Olmo2", "norms after")
def olmo2(s):
    return s.base(head_dim=False) | s.rope()


@kind("OLMo 3 (olmo2)", "Olmo3", "norms after, windows")
def olmo3(s):
    c = s.base(head_dim=False, sliding_window=s.of(33, 50))
    step = s.of(2, 4)
    c["num_hidden_layers"] = s.of(4, 5)
    r = yarn(s)["rope_parameters"]
    return c | dict(layer_types=every(c["num_hidden_layers"], step)) | dict(
        rope_parameters={"full_attention": r, "sliding_attention": {"rope_type": "default", "rope_theta": r["rope_theta"]}}
        if s.seed else s.rope()["rope_parameters"])


@kind("smollm3", "SmolLM3", "layers that do not rotate")
def smollm3(s):
    c = s.base(head_dim=False, use_sliding_window=False)
    c["num_hidden_layers"] = s.of(4, 5, 8)
    return c | s.rope()


@kind("mistral3", "Ministral3", "YaRN, scaled queries")
def ministral3(s):
    return s.base(sliding_window=None) | yarn(s, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)


@kind("ernie4_5", "Ernie4_5")
def ernie(s):
    return s.base() | s.rope()


@kind("seed_oss", "SeedOss", "biases")
def seed_oss(s):
    return s.base(attention_bias=True) | s.rope()


@kind("glm4", "Glm4", "norms on both sides, half of a head rotates")
def glm4(s):
    return s.base(attention_bias=s.of(True, False)) | s.rope(partial_rotary_factor=0.5)


@kind("gemma2", "Gemma2", "windows, capped logits")
def gemma2(s):
    c = s.base(sliding_window=s.of(33, 64), attn_logit_softcapping=5.0, final_logit_softcapping=3.0)
    c["tie_word_embeddings"] = True
    return c | dict(query_pre_attn_scalar=s.of(16, c["head_dim"])) | s.rope(rope_theta=10000.0)


@kind("gemma3", "Gemma3", "windows")
def gemma3(s):
    c = s.base(sliding_window=s.of(33, 40))
    c |= dict(num_hidden_layers=[6, 7, 4][s.seed], tie_word_embeddings=True)
    full = [s.rope(), s.rope(rope_type="linear", factor=8.0), s.rope()][s.seed]["rope_parameters"]
    return c | dict(query_pre_attn_scalar=c["head_dim"], layer_types=every(c["num_hidden_layers"], [6, 6, 3][s.seed]),
                    rope_parameters={"full_attention": full, "sliding_attention": dict(rope_type="default", rope_theta=1e4)})


def gemma4(s, **more):
    c = s.base(sliding_window=s.of(33, 40), global_head_dim=s.of(48, 64, 96), final_logit_softcapping=3.0)
    n = s.of(3, 6)
    c |= dict(num_hidden_layers=n, tie_word_embeddings=True, layer_types=every(n, 3), num_key_value_heads=2,
              num_attention_heads=s.of(2, 4), head_dim=s.of(16, 32))
    full = dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=1e6)
    return c | dict(rope_parameters={"full_attention": full, "sliding_attention": dict(rope_type="default", rope_theta=1e4)}) | more


@kind("gemma4 (as 31B)", "Gemma4", "windows, keys as values")
def gemma4_dense(s):
    return gemma4(s, num_global_key_value_heads=s.of(1, 2), attention_k_eq_v=True, hidden_size_per_layer_input=0)


@kind("gemma4 (as E2B)", "Gemma4", "windows, shared keys, inputs of layers")
def gemma4_e2b(s):
    c = gemma4(s, use_double_wide_mlp=True, hidden_size_per_layer_input=s.of(32, 64), vocab_size_per_layer_input=VOCAB)
    return c | dict(num_hidden_layers=6, layer_types=every(6, 3), num_kv_shared_layers=3,
                    num_key_value_heads=s.of(1, 2))


@kind("gemma4 (as 26B-A4B)", "Gemma4", "windows, experts and a dense feed-forward")
def gemma4_moe(s):
    return gemma4(s, num_global_key_value_heads=s.of(1, 2), attention_k_eq_v=True, hidden_size_per_layer_input=0,
                  enable_moe_block=True, num_experts=s.of(6, 8), top_k_experts=s.of(2, 3), moe_intermediate_size=s.of(32, 64))


@kind("gpt-oss", "GptOss", "windows, sinks, experts")
def gpt_oss(s):
    c = s.base(num_local_experts=s.of(4, 6), num_experts_per_tok=2, sliding_window=33, tie_word_embeddings=False)
    return c | dict(layer_types=every(c["num_hidden_layers"], 2)) | yarn(s, truncate=False)


@kind("exaone4", "Exaone4", "windows")
def exaone4(s):
    c = s.base(sliding_window=s.of(33, 50), sliding_window_pattern=4)
    c["num_hidden_layers"] = s.of(4, 5, 8)
    return c | dict(layer_types=every(c["num_hidden_layers"], 4)) | s.rope()


@kind("cohere2", "Cohere2", "windows, parallel halves")
def cohere2(s):
    c = s.base(head_dim=False, sliding_window=s.of(33, 50), logit_scale=s.of(0.25, 0.5), layer_norm_eps=1e-5)
    c |= dict(num_hidden_layers=4, tie_word_embeddings=True)
    return c | dict(layer_types=every(4, 4)) | s.rope()


@kind("Mixtral (llama)", "Mixtral", "experts")
def mixtral(s):
    return s.base(sliding_window=None) | s.moe("num_local_experts", ff=False) | s.rope()


@kind("qwen2moe", "Qwen2Moe", "experts, a gated shared one")
def qwen2moe(s):
    return s.base(head_dim=False, shared_expert_intermediate_size=s.of(32, 96)) | s.moe(norm_topk_prob=s.seed == 2) | s.rope()


@kind("qwen3moe", "Qwen3Moe", "experts")
def qwen3moe(s):
    return s.base() | s.moe(norm_topk_prob=s.seed != 2) | s.rope()


@kind("olmoe", "Olmoe", "experts")
def olmoe(s):
    return s.base(head_dim=False) | dict(rms_norm_eps=1e-5) | s.moe(ff=False, norm_topk_prob=s.seed == 2) | s.rope()


@kind("granitemoe", "GraniteMoeShared", "experts, shared ones")
def granitemoe(s):
    return s.base(head_dim=False, embedding_multiplier=6.0, residual_multiplier=0.22, logits_scaling=4.0,
                  attention_multiplier=0.11, shared_intermediate_size=s.of(32, 64)) | s.moe("num_local_experts", ff=False) | s.rope()


@kind("granitemoe, none shared", "GraniteMoe", "experts")
def granitemoe_plain(s):
    return s.base(head_dim=False, embedding_multiplier=6.0, residual_multiplier=0.22, logits_scaling=4.0,
                  attention_multiplier=0.11) | s.moe("num_local_experts", ff=False) | s.rope()


def groups(s):
    return dict(n_group=4, topk_group=2, n_routed_experts=8, num_experts_per_tok=3) if s.seed == 2 else dict(n_group=1, topk_group=1)


@kind("glm4moe", "Glm4Moe", "experts, sigmoid, groups")
def glm4moe(s):
    return s.base(attention_bias=s.of(True, False), use_qk_norm=s.of(True, False), first_k_dense_replace=1,
                  n_shared_experts=s.of(1, 2), routed_scaling_factor=1.7) | s.moe(
                      "n_routed_experts", norm_topk_prob=True) | groups(s) | s.rope(partial_rotary_factor=0.5)


@kind("dots1", "Dots1", "experts, sigmoid")
def dots1(s):
    return s.base(first_k_dense_replace=1, n_shared_experts=s.of(1, 2), routed_scaling_factor=2.5) | s.moe(
        "n_routed_experts", norm_topk_prob=s.of(True, False)) | dict(n_group=1, topk_group=1) | s.rope()


def latent(s, **more):
    c = s.base(head_dim=False, kv_lora_rank=s.of(32, 64, 96), qk_rope_head_dim=s.of(16, 32), qk_nope_head_dim=s.of(16, 32),
               v_head_dim=s.of(16, 32), q_lora_rank=s.of(32, 64), hidden_size=0)
    c |= dict(hidden_size=c["num_attention_heads"] * 32, num_key_value_heads=c["num_attention_heads"], first_k_dense_replace=1,
              n_shared_experts=s.of(1, 2), routed_scaling_factor=s.of(1.0, 2.5), rms_norm_eps=1e-6)
    return c | s.moe("n_routed_experts") | more


@kind("deepseek2 (as V2)", "DeepseekV2", "latent attention, experts, groups")
def deepseek_v2(s):
    c = latent(s, norm_topk_prob=False)
    return c | ([dict(q_lora_rank=None, topk_method="greedy"), dict(topk_method="greedy"), dict(
        topk_method="group_limited_greedy", n_routed_experts=9, n_group=3, topk_group=2)][s.seed]) | (
            s.rope() if s.seed else yarn(s, mscale=0.707, mscale_all_dim=0.707))


@kind("deepseek2 (as V3)", "DeepseekV3", "latent attention, experts, sigmoid, groups")
def deepseek_v3(s):
    return latent(s, norm_topk_prob=True) | dict(n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2) | (
        s.rope() if s.seed else yarn(s, mscale=1.0, mscale_all_dim=1.0))


@kind("deepseek2 (as GLM-4.7-Flash)", "Glm4MoeLite", "latent attention, experts, sigmoid")
def glm_lite(s):
    return latent(s) | s.rope()


@kind("mistral4", "Mistral4", "latent attention, experts, scaled queries")
def mistral4(s):
    return latent(s, norm_topk_prob=True) | dict(first_k_dense_replace=0, routed_scaling_factor=1.0) | yarn(
        s, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)


@kind("minicpm3", "MiniCPM3", "latent attention, three scales")
def minicpm3(s):
    c = latent(s, scale_emb=12, scale_depth=1.4, dim_model_base=256)  # llama.cpp has these three as constants
    c["hidden_size"] = c["num_attention_heads"] * c["v_head_dim"]  # its converter takes the quotient
    for k in ("first_k_dense_replace", "n_shared_experts", "routed_scaling_factor", "n_routed_experts",
              "num_experts_per_tok", "moe_intermediate_size"):
        del c[k]
    half = c["qk_rope_head_dim"] // 2
    return c | s.rope(rope_theta=1e4, rope_type="longrope", factor=1.0, short_factor=[1 + i / 20 for i in range(half)],
                      long_factor=[1.2 + i / 2 for i in range(half)], original_max_position_embeddings=512)


def delta(s, **more):
    c = s.base()
    n, key = s.of(4, 5, 8), s.of(1, 2, 4)
    c |= dict(num_hidden_layers=n, layer_types=every(n, 4, other="linear_attention"), linear_conv_kernel_dim=4,
              linear_num_key_heads=key, linear_num_value_heads=key * s.of(1, 2, 3), linear_key_head_dim=s.of(16, 32),
              linear_value_head_dim=s.of(16, 32), head_dim=s.of(32, 64), rms_norm_eps=1e-6)
    rot = c["head_dim"] // 4
    sections = [rot // 2 - 2 * (rot // 6), rot // 6, rot // 6]
    return c | s.rope(partial_rotary_factor=0.25, mrope_section=sections) | more


@kind("qwen35", "Qwen3_5", "gated delta rule")
def qwen35(s):
    return delta(s)


@kind("qwen35moe", "Qwen3_5Moe", "gated delta rule, experts")
def qwen35moe(s):
    return delta(s) | s.moe(shared_expert_intermediate_size=s.of(32, 64))


@kind("qwen3next", "Qwen3Next", "gated delta rule, experts")
def qwen3next(s):
    c = delta(s) | s.moe(shared_expert_intermediate_size=s.of(32, 64), norm_topk_prob=True)
    del c["rope_parameters"]["mrope_section"]
    return c


@kind("lfm2", "Lfm2", "short convolutions")
def lfm2(s):
    c = s.base(head_dim=False, conv_L_cache=s.of(3, 4), norm_eps=1e-5, block_auto_adjust_ff_dim=s.of(True, False))
    n = c["num_hidden_layers"] = s.of(3, 5)
    c["tie_word_embeddings"] = True
    return c | dict(layer_types=every(n, 3, other="conv")) | s.rope()


@kind("lfm2moe", "Lfm2Moe", "short convolutions, experts")
def lfm2moe(s):
    c = s.base(head_dim=False, conv_L_cache=3, norm_eps=1e-5, num_dense_layers=s.of(1, 2), use_expert_bias=True,
               norm_topk_prob=True)
    n = c["num_hidden_layers"] = s.of(3, 5)
    c["tie_word_embeddings"] = True
    del c["rms_norm_eps"]
    return c | dict(layer_types=every(n, 3, other="conv")) | s.moe() | s.rope()


def mamba(s, c):
    dim = s.of(8, 16, 32)
    heads = 2 * c["hidden_size"] // dim
    g = s.of(*[g for g in (1, 2, 4) if heads % g == 0])
    return dict(mamba_n_heads=heads, mamba_d_head=dim, mamba_n_groups=g, mamba_d_state=s.of(16, 32), mamba_d_conv=4,
                mamba_expand=2, mamba_chunk_size=64)


@kind("granitehybrid", "GraniteMoeHybrid", "Mamba-2")
def granite_hybrid(s):
    c = s.base(head_dim=False, embedding_multiplier=6.0, residual_multiplier=0.22, logits_scaling=4.0,
               attention_multiplier=0.11, shared_intermediate_size=s.of(64, 96), num_local_experts=0,
               num_experts_per_tok=0, position_embedding_type="nope")
    c["intermediate_size"] = c["shared_intermediate_size"]
    n = c["num_hidden_layers"] = s.of(3, 4)
    return c | mamba(s, c) | dict(layer_types=every(n, 2, "attention", "mamba")) | s.rope()


@kind("granitehybrid, experts", "GraniteMoeHybrid", "Mamba-2, experts")
def granite_hybrid_moe(s):
    return granite_hybrid(s) | s.moe("num_local_experts", ff=False)


@kind("falcon-h1", "FalconH1", "Mamba-2 and attention in one layer")
def falcon_h1(s):
    c = s.base(head_dim=True, embedding_multiplier=4.0, lm_head_multiplier=0.5, attention_in_multiplier=0.5,
               attention_out_multiplier=0.25, key_multiplier=2.0, ssm_in_multiplier=0.5, ssm_out_multiplier=2.0,
               mlp_multipliers=[0.5, 2.0], ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 1.0], tie_word_embeddings=False,
               mamba_rms_norm=s.of(True, False), mamba_norm_before_gate=False)
    m = mamba(s, c)
    return c | m | dict(mamba_d_ssm=m["mamba_n_heads"] * m["mamba_d_head"]) | s.rope()


@kind("nemotron_h", "NemotronH", "Mamba-2, layers of one part")
def nemotron_h(s):
    c = s.base(head_dim=False, mlp_hidden_act="relu2", layer_norm_epsilon=1e-5)
    p = c["layers_block_type"] = [["mamba", "mlp", "attention", "mlp"], ["mamba", "mlp", "mamba", "attention", "mlp"],
                                  ["mamba", "attention", "mlp"]][s.seed]
    c["num_hidden_layers"] = len(p)
    m = mamba(s, c)
    return c | dict(mamba_num_heads=m["mamba_n_heads"], mamba_head_dim=m["mamba_d_head"], n_groups=m["mamba_n_groups"],
                    ssm_state_size=m["mamba_d_state"], conv_kernel=4, expand=2, chunk_size=64,
                    tie_word_embeddings=False)


# ---- weights that int8 with a scale of a power of two holds exactly ------------------------------

def exact(g, shape, gain=1.0):
    q = torch.randint(-127, 128, shape, generator=g)
    i = torch.arange(shape[-2])[:, None] + torch.arange(shape[-1])[None]
    q = torch.where(i % 8 == 0, torch.where(q < 0, -127, 127), q)
    return q.double() * 2.0 ** round(math.log2(gain / math.sqrt(shape[-1]) / 82))


def randomize(model, name):
    g = torch.Generator().manual_seed(sum(map(ord, name)))
    small = lambda shape, std, mean=0.0: ((torch.randn(shape, generator=g) * std + mean) * 64).round() / 64
    plus_one = any(k in type(model).__name__ for k in ("Gemma2", "Gemma3", "Qwen3_5", "Qwen3Next"))
    for key, p in [*model.named_parameters(), *model.named_buffers()]:
        last = key.rsplit(".", 1)[-1]
        if key in dict(model.named_buffers()):
            if last == "e_score_correction_bias" or last == "expert_bias":
                p.data = small(p.shape, 0.3)
            elif last == "layer_scalar":
                p.data = small(p.shape, 0.15, 1)
            continue
        gated_norm = "linear_attn.norm" in key
        if last == "A_log":
            p.data = small(p.shape, 0.5, 0.5)
        elif last == "dt_bias":
            p.data = small(p.shape, 0.5, -2.5)
        elif last == "D":
            p.data = small(p.shape, 0.3, 1)
        elif "conv" in key and p.ndim == 3:
            p.data = small(p.shape, 0.6)
        elif key.endswith("router.scale"):
            p.data = small(p.shape, 0.3, 1) * p.numel() ** 0.5
        elif last == "per_expert_scale":
            p.data = small(p.shape, 0.3, 1)
        elif p.ndim > 1:
            p.data = exact(g, tuple(p.shape), 2.0 if "q_proj" in key or "k_proj" in key or ".gate.weight" in key else 1.0)
        elif "norm" in key and last != "bias":
            p.data = small(p.shape, 0.1, 0 if plus_one and not gated_norm else 1)
        else:
            p.data = small(p.shape, 0.3)


def make(cls, config):
    text = "Text" if cls in ("Gemma3", "Gemma4", "Qwen3_5", "Qwen3_5Moe") else ""
    source = "Llama" if cls == "MiniCPM" else cls
    common = dict(vocab_size=VOCAB, max_position_embeddings=512, attn_implementation="eager", pad_token_id=0,
                  bos_token_id=1, eos_token_id=2)
    c = getattr(transformers, source + text + "Config")(**common | config)
    c._experts_implementation = "eager"
    return getattr(transformers, source + "ForCausalLM")(c).double().eval(), c


def reference(model, cls, config, ids):
    for m in model.modules():  # Nemotron-H's own code has no least time step
        if hasattr(m, "time_step_limit"):
            m.time_step_limit = (0.0, math.inf)
    with torch.no_grad():
        if cls == "MiniCPM":  # Llama with other factors
            scale = config["scale_depth"] / config["num_hidden_layers"] ** 0.5
            twin, _ = make(cls, config | {"tie_word_embeddings": False})
            twin.load_state_dict(model.state_dict() | {"lm_head.weight": model.lm_head.weight})
            for l in twin.model.layers:
                l.self_attn.o_proj.weight *= scale
                l.mlp.down_proj.weight *= scale
            twin.model.embed_tokens.weight.data = twin.model.embed_tokens.weight * config["scale_emb"]
            twin.lm_head.weight.data = twin.lm_head.weight / (config["hidden_size"] / config["dim_model_base"])
            model = twin
        return model(ids[None], use_cache=False).logits[0].double().numpy()


def save(model, cls, config, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.to(single).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TREE / "tests/golden/checkpoints" / name, folder)
    if cls == "MiniCPM":
        change(folder, config | {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm"})
    if cls == "GraniteMoeHybrid":
        change(folder, {"layer_types": config["layer_types"]})


def change(folder, more, *less):
    path = folder / "config.json"
    settings = json.loads(path.read_text()) | more
    path.write_text(json.dumps({k: v for k, v in settings.items() if k not in less}))


def add_settings(cls, config, folder):
    """Settings of the makers' files that llama.cpp's converter reads and transformers leaves out."""
    if cls in ("DeepseekV3", "Glm4MoeLite"):
        change(folder, {"scoring_func": "sigmoid", "topk_method": "noaux_tc"})
    if cls == "Cohere2":
        change(folder, {"rotary_pct": 1.0}, "rms_norm_eps")
    if cls == "Mistral4":
        change(folder, {"architectures": ["Mistral3ForConditionalGeneration"]})
    if cls == "NemotronH":
        letters = {"mamba": "M", "mlp": "-", "attention": "*"}
        pattern = "".join(letters[k] for k in config["layers_block_type"])
        change(folder, {"num_hidden_layers": len(pattern), "hybrid_override_pattern": pattern},
               "rms_norm_eps", "n_routed_experts", "num_experts_per_tok")


# ---- files ---------------------------------------------------------------------------------------

def run(*words):
    p = subprocess.run(words, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr.strip().splitlines()[-1][:150])


def logits(path, ids, chunk, device="cpu", units="f32", n=TOKENS, context=512):
    env = os.environ | ({"LD_LIBRARY_PATH": str(TREE / "build/tests/emu")} if device == "cuda" else {})
    p = subprocess.run([TREE / "build/tests/logits", path, device, units, str(chunk), str(n), str(context)],
                       input=ids.numpy().astype("<i4").tobytes(), capture_output=True, env=env)
    if p.returncode:
        raise RuntimeError(p.stderr.decode().strip()[:200])
    return np.frombuffer(p.stdout, "<f4").reshape(n, -1)[:, :VOCAB].astype(np.float64)


def distance(got, want):
    return np.abs(got - want).max() / np.sqrt((want ** 2).mean())


def compare(path, ids, want, context):
    rows = [logits(path, ids, chunk, context=context) for chunk in (1, 7, 128)]
    assert all((r == rows[0]).all() for r in rows), "chunks give other bits"
    return distance(rows[0], want)


def on_gpu(path, ids, context):
    """The GPU's distance in units of what halves cost."""
    n, half = 48, logits(path, ids, 24, units="f16", n=48, context=context)
    wide = logits(path, ids, 24, n=n, context=context)
    return distance(logits(path, ids, 24, "cuda", "f16", n, context), half) / distance(wide, half)


def cells(name, cls, shape, seed, ids):
    """Three numbers, or why there is none."""
    config = shape(Shape(name, seed))
    # a plan that stays below the original context uses LongRoPE's short factors
    context = 304 if name == "phi3" and seed == 2 else 512
    model, c = make(cls, config)
    randomize(model, f"{name}{seed}")
    want = reference(model, cls, config, ids)
    folder = LAB / f"{cls}-{seed}-{sum(map(ord, name))}"
    mine, other = folder.with_suffix(".q8.gguf"), folder.with_suffix(".f32.gguf")
    save(model, cls, config, folder)

    def quantized():
        run(TREE / "build/retain", "quantize", folder, mine, "--type", "q8", "--force")
        return compare(mine, ids, want, context)

    def converted():
        add_settings(cls, config, folder)
        run(sys.executable, __file__, LLAMA, folder, "--convert", other)
        return compare(other, ids, want, context)

    for f in quantized, converted, lambda: on_gpu(mine, ids, context):
        try:
            yield f()
        except Exception as e:
            print(f"{name} {seed}: {e}", file=sys.stderr, flush=True)
            yield None


def worst(column, form):
    known = [x for x in column if x is not None]
    return " ".join(([form % max(known)] if known else []) + (["(%d of 3)" % len(known)] if len(known) < 3 else []))


def main():
    ids = torch.randint(3, VOCAB, (TOKENS,), generator=torch.Generator().manual_seed(0))
    print("| family | special parts | its folder | llama.cpp's file | GPU |\n|---|---|---|---|---|")
    for name, (cls, shape, parts) in KINDS.items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        columns = zip(*(cells(name, cls, shape, seed, ids) for seed in range(3)))
        row = [worst(c, form) for c, form in zip(columns, ("%.1e", "%.1e", "%.1f"))]
        print(f"| {name} | {parts} | {' | '.join(row)} |", flush=True)


main()
