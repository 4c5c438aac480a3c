#!/usr/bin/env python3
"""Writes families/: recipes of tiny random models whose layers have windows, and their logits.

The logits are those of Hugging Face's implementations in double precision (eager attention), with
weights that the file can hold. checkpoints/ gets recipes of some models as folders. Needs PyTorch,
gguf and transformers 5.

    tests/golden/make_windows.py         takes seconds, overwrites its files
"""
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from drawn import Drawn, write_recipe
from make_families import N_VOCAB, golden_ids, write_golden
from make_recurrent import write_folder


@dataclass
class Model:
    """name: of the file; kind: prefix of Hugging Face's classes; arch: in GGUF."""
    name: str
    kind: str
    arch: str
    config: dict
    meta: dict = field(default_factory=dict)  # metadata beyond the shape
    tensors: dict = field(default_factory=dict)  # beyond the weights


# ---- names in GGUF ------------------------------------------------------------------------------

PLAIN = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
BOTH = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
AFTER = {"post_attention_layernorm": "post_attention_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
BESIDE = {"router.proj": "ffn_gate_inp", "post_feedforward_layernorm_1": "post_ffw_norm_1",
          "post_feedforward_layernorm_2": "post_ffw_norm_2",
          "pre_feedforward_layernorm_2": "pre_ffw_norm_2"}
INPUTS = {"per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
          "post_per_layer_input_norm": "post_norm"}
NAMES = {"gemma2": PLAIN | BOTH, "gemma4": PLAIN | BOTH | INPUTS | BESIDE, "gemma3": PLAIN | BOTH, "olmo2": PLAIN | AFTER,
         "exaone4": PLAIN | AFTER,
         "gpt-oss": PLAIN | {"input_layernorm": "attn_norm", "mlp.router": "ffn_gate_inp",
                             "post_attention_layernorm": "post_attention_norm"}}
NAMES["cohere2"] = PLAIN | {"input_layernorm": "attn_norm"}
TEXT_PARTS = ("Gemma3", "Gemma4")  # whose configuration is that of a part of a larger model
ONE_MORE = ("gemma2", "gemma3")  # whose norms multiply by 1 + weight; files hold the sum


def gpt_oss_tensors(i, name, x):
    """Experts are [expert][in][out] there, with gate and up side by side."""
    if "sinks" in name:
        return {f"blk.{i}.attn_sinks.weight": (x, "F32")}
    suffix, kind = ("bias", "F32") if "bias" in name else ("weight", "F16")
    if suffix == "weight":
        x = x.transpose(1, 2)
    if "down" in name:
        return {f"blk.{i}.ffn_down_exps.{suffix}": (x.contiguous(), kind)}
    return {f"blk.{i}.ffn_gate_exps.{suffix}": (x[:, ::2].contiguous(), kind),
            f"blk.{i}.ffn_up_exps.{suffix}": (x[:, 1::2].contiguous(), kind)}


def gemma4_tensors(i, name, x):
    """The parts of experts whose names have no suffix."""
    name = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
            "experts.gate_up_proj": "ffn_gate_up_exps.weight",
            "experts.down_proj": "ffn_down_exps.weight"}[name]
    return {f"blk.{i}.{name}": (x, "F16" if x.ndim > 1 else "F32")}


def tensors_of(m, state):
    out = dict(m.tensors)
    for key, x in state.items():
        key = key.removeprefix("model.")
        if key.startswith("layers."):
            _, i, rest = key.split(".", 2)
            if rest == "layer_scalar":
                out[f"blk.{i}.layer_output_scale.weight"] = (x, "F32")
                continue
            if m.arch == "gemma4" and ("experts." in rest or rest.endswith("scale")):
                out |= gemma4_tensors(i, rest, x)
                continue
            if "experts" in rest or "sinks" in rest:
                out |= gpt_oss_tensors(i, rest, x)
                continue
            stem, _, suffix = rest.rpartition(".")
            name = f"blk.{i}.{NAMES[m.arch][stem]}.{suffix}"
        else:
            name = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
                    "lm_head.weight": "output.weight",
                    "embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
                    "per_layer_model_projection.weight": "per_layer_model_proj.weight",
                    "per_layer_projection_norm.weight": "per_layer_proj_norm.weight"}[key]
        if name == "output.weight" and m.config.get("tie_word_embeddings", True):
            continue
        if "norm" in name and m.arch in ONE_MORE:
            x = x + 1
        out[name] = (x, "F16" if x.ndim > 1 else "F32")
    return out


# ---- models -------------------------------------------------------------------------------------

def randomize(model, arch):
    """Weights that make attention sharp and logits of a deviation of about 1."""
    d = Drawn()
    for name, p in model.named_parameters():
        if name.endswith("router.scale"):
            size = p.numel() ** 0.5
            x = d.draw(name, "F32", p.shape, 0.3 * size, size)
        elif name.endswith("per_expert_scale"):
            x = d.draw(name, "F32", p.shape, 0.3, 1)
        elif p.ndim > 1:
            gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.0
            x = d.draw(name, "F16", p.shape, gain / p.shape[-1] ** 0.5)
        elif "norm" in name:
            x = d.draw(name, "F32", p.shape, 0.1, 0 if arch in ONE_MORE else 1)
        else:
            x = d.draw(name, "F32", p.shape, 0.5)
        p.data = x
    for name, x in model.named_buffers():
        if name.endswith("layer_scalar"):
            x.data = d.draw(name, "F32", x.shape, 0.15, 1)
    return d


def metadata(m, c):
    a = m.arch
    base = (c.rope_parameters or {})
    head_dim = m.config.get("head_dim", c.hidden_size // c.num_attention_heads)
    base = base.get("full_attention", base).get("rope_theta", 10000.0)
    meta = {"general.architecture": a, "general.name": m.name, "general.alignment": 32,
            f"{a}.context_length": c.max_position_embeddings,
            f"{a}.embedding_length": c.hidden_size, f"{a}.block_count": c.num_hidden_layers,
            f"{a}.feed_forward_length": c.intermediate_size,
            f"{a}.attention.head_count": c.num_attention_heads,
            f"{a}.attention.head_count_kv": m.config["num_key_value_heads"],
            f"{a}.attention.layer_norm{'' if a == 'cohere2' else '_rms'}_epsilon":
                c.layer_norm_eps if a == "cohere2" else c.rms_norm_eps,
            f"{a}.attention.key_length": head_dim, f"{a}.attention.value_length": head_dim,
            f"{a}.attention.sliding_window": c.sliding_window or 0,
            f"{a}.rope.freq_base": float(base)}
    return meta | {f"{a}.{k}": v for k, v in m.meta.items()}


def load(m):
    """The model, what was drawn for it, its configuration."""
    common = {"vocab_size": N_VOCAB, "max_position_embeddings": 512, "attn_implementation": "eager",
              "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
              "tie_word_embeddings": True}
    text = "Text" if m.kind in TEXT_PARTS else ""
    c = getattr(transformers, m.kind + text + "Config")(**common | m.config)
    c._experts_implementation = "eager"  # others have no double precision
    model = getattr(transformers, m.kind + "ForCausalLM")(c).double().eval()
    return model, randomize(model, m.arch), c


CHECKPOINTS = ("gemma3", "olmo3", "exaone4", "cohere2", "gpt-oss", "gemma4-e2b", "gemma4-moe")


def write_checkpoint(folder, m, d, c):
    lines = d.views(lambda drawn: {k: (x, "F16" if x.ndim > 1 else "F32") for k, x in drawn.items()})
    settings = c.to_dict() | {"architectures": [m.kind + "ForCausalLM"]}
    drop = ("id2label", "label2id", "return_dict", "output_hidden_states", "chunk_size_feed_forward",
            "is_encoder_decoder", "problem_type", "output_attentions", "transformers_version")
    write_folder(folder, m.name, lines, {k: v for k, v in settings.items() if k not in drop})


def layers(step, n):
    """Every step-th layer sees everything."""
    return ["full_attention" if (i + 1) % step == 0 else "sliding_attention" for i in range(n)]


def shape(embd, ff, n_layer, n_head, n_kv, head_dim, **more):
    return {"hidden_size": embd, "intermediate_size": ff, "num_hidden_layers": n_layer,
            "num_attention_heads": n_head, "num_key_value_heads": n_kv, "head_dim": head_dim} | more


def rope(base, **scaling):
    return {"rope_type": "default", "rope_theta": base} | scaling


def gemma4(name, window, s):
    n, shared = s["num_hidden_layers"], s.get("num_kv_shared_layers", 0)
    kinds = layers(3, n)
    heads = [s.get("num_global_key_value_heads", s["num_key_value_heads"]) if "full" in k
             else s["num_key_value_heads"] for k in kinds]
    big, small = s["global_head_dim"], s["head_dim"]
    meta = {"attention.head_count_kv": heads, "attention.key_length": big,
            "attention.value_length": big, "attention.key_length_swa": small,
            "attention.value_length_swa": small, "rope.dimension_count": big,
            "rope.dimension_count_swa": small, "rope.freq_base_swa": 10000.0,
            "attention.shared_kv_layers": shared, "final_logit_softcapping": 3.0,
            "embedding_length_per_layer_input": s["hidden_size_per_layer_input"],
            "attention.sliding_window_pattern": ["sliding" in k for k in kinds]}
    if "num_experts" in s:
        meta |= {"expert_count": s["num_experts"], "expert_used_count": s["top_k_experts"],
                 "expert_feed_forward_length": s["moe_intermediate_size"]}
    if "use_double_wide_mlp" in s:
        meta["feed_forward_length"] = [s["intermediate_size"] * (2 if i >= n - shared else 1)
                                       for i in range(n)]
    rotated = int(big * 0.25 / 2)
    factors = torch.tensor([1.0] * rotated + [1e30] * (big // 2 - rotated))
    full = rope(1e6, rope_type="proportional", partial_rotary_factor=0.25)
    return Model(name, "Gemma4", "gemma4",
                 s | {"sliding_window": window, "layer_types": kinds, "final_logit_softcapping": 3.0,
                      "rope_parameters": {"full_attention": full, "sliding_attention": rope(10000.0)}},
                 meta, {"rope_freqs.weight": (factors, "F32")})


def models():
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    yield Model("gemma2", "Gemma2", "gemma2",
                shape(32, 64, 2, 2, 1, 32, query_pre_attn_scalar=32, sliding_window=33) | caps, caps)
    yield Model("gemma3", "Gemma3", "gemma3",
                shape(32, 64, 3, 2, 1, 32, query_pre_attn_scalar=32, sliding_window=40,
                      layer_types=layers(3, 3), rope_parameters={
                          "full_attention": rope(1e6, rope_type="linear", factor=8.0),
                          "sliding_attention": rope(10000.0)}),
                {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0,
                 "attention.sliding_window_pattern": 3})
    yarn = rope(500000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=128)
    written = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.original_context_length": 128}
    s = shape(32, 64, 4, 2, 1, 16, sliding_window=50, layer_types=layers(4, 4))
    yield Model("exaone4", "Exaone4", "exaone4", s | {"sliding_window_pattern": 4})
    del s["head_dim"]
    yield Model("olmo3", "Olmo3", "olmo2",
                s | {"tie_word_embeddings": False, "rope_parameters": {
                    "full_attention": yarn, "sliding_attention": rope(500000.0)}}, written)
    yield Model("cohere2", "Cohere2", "cohere2",
                s | {"sliding_window": 33, "logit_scale": 0.25, "rope_parameters": rope(50000.0)},
                {"logit_scale": 0.25, "rope.dimension_count": 16})
    # as the dense 31B model, as E2B, as 26B-A4B with experts beside the feed-forwards
    one = dict(num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0)
    yield gemma4("gemma4", 40, shape(32, 64, 3, 4, 2, 16, global_head_dim=32, **one))
    yield gemma4("gemma4-e2b", 33,
                 shape(32, 48, 6, 2, 1, 16, global_head_dim=32, num_kv_shared_layers=3,
                       use_double_wide_mlp=True, hidden_size_per_layer_input=32,
                       vocab_size_per_layer_input=N_VOCAB))
    yield gemma4("gemma4-moe", 40,
                 shape(32, 48, 3, 4, 2, 16, global_head_dim=32, enable_moe_block=True, num_experts=6,
                       top_k_experts=2, moe_intermediate_size=32, **one))
    yarn = rope(150000.0, rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0,
                original_max_position_embeddings=128, truncate=False)
    yield Model("gpt-oss", "GptOss", "gpt-oss",
                shape(32, 32, 2, 4, 2, 16, num_local_experts=6, num_experts_per_tok=2,
                      sliding_window=33, layer_types=layers(2, 2), rope_parameters=yarn,
                      tie_word_embeddings=False),
                {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 32} | written)


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "families"
    for m in models():
        model, d, c = load(m)
        with torch.no_grad():
            logits = model(golden_ids()[None], use_cache=False).logits[0]
        write_recipe(folder / f"{m.name}.model", metadata(m, c), d.views(lambda drawn: tensors_of(m, drawn)))
        if m.name in CHECKPOINTS:
            write_checkpoint(folder.parent / "checkpoints", m, d, c)
        rows = write_golden(folder / f"{m.name}.logits", golden_ids(), logits)
        print(f"{m.name}: standard deviation of logits {rows.std():.2f}")


if __name__ == "__main__":
    main()
