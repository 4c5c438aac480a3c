#!/usr/bin/env python3
"""Writes into checkpoints/ recipes of families with experts: models of make_families.py under the
names and in the order of their makers. Needs PyTorch and gguf.

    tests/golden/make_folders.py         takes seconds, overwrites its recipes
"""
from pathlib import Path

import torch
from drawn import Drawn
from make_families import N_VOCAB, Layer, golden_ids, make_mtp, make_weights, models
from make_recurrent import write_folder

PLAIN = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
         "o": "self_attn.o_proj", "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def deep_layer(l):
    """GLM-4.5, dots.llm1: a tensor for each matrix of each expert."""
    shared = "shared_experts." if "router" in l else ""
    names = PLAIN | {name: f"mlp.{shared}{name}_proj" for name in ("gate", "up", "down")}
    out = {}
    for key, x in l.items():
        if key == "choice_b":
            out["mlp.gate.e_score_correction_bias"] = x
        elif key == "router":
            out["mlp.gate.weight"] = x
        elif key.endswith("_exps"):
            out |= {f"mlp.experts.{i}.{key[:-5]}_proj.weight": part for i, part in enumerate(x)}
        elif key.endswith("_b"):
            out[names[key[:-2]] + ".bias"] = x
        else:
            out[names[key] + ".weight"] = x
    return out


def granite_layer(l):
    """Granite 3: one tensor of all experts, with gate above up."""
    out = {PLAIN[key] + ".weight": x for key, x in l.items() if key in PLAIN}
    return out | {
        "block_sparse_moe.router.layer.weight": l["router"],
        "block_sparse_moe.input_linear.weight": torch.cat([l["gate_exps"], l["up_exps"]], 1),
        "block_sparse_moe.output_linear.weight": l["down_exps"],
        "shared_mlp.input_linear.weight": torch.cat([l["gate"], l["up"]]),
        "shared_mlp.output_linear.weight": l["down"]}


def mtp_layer(c, drawn):
    names = {"shared_head_head": "shared_head.head", "shared_head_norm": "shared_head.norm"}
    at = f"blk.{c.n_layer}.nextn."
    out = deep_layer(Layer(c, Drawn(drawn), c.n_layer).all(c.n_layer))
    for key in (key for key in drawn if key.startswith(at)):
        name = key.removeprefix(at).removesuffix(".weight")
        out[names.get(name, name) + ".weight"] = drawn[key]
    return out


def settings(c):
    x = c.experts
    out = {"hidden_size": c.n_embd, "num_hidden_layers": c.n_layer, "vocab_size": N_VOCAB,
           "num_attention_heads": c.n_head, "num_key_value_heads": c.n_kv, "head_dim": c.head_dim,
           "intermediate_size": c.n_ff, "max_position_embeddings": c.n_ctx, "rms_norm_eps": c.eps,
           "tie_word_embeddings": c.tied, "num_experts_per_tok": x["used"], "rope_parameters": {
               "rope_type": "default", "rope_theta": c.base}}
    if c.arch == "granitemoe":
        return out | {
            "architectures": ["GraniteMoeSharedForCausalLM"], "num_local_experts": x["n"],
            "shared_intermediate_size": x["shared"], "embedding_multiplier": c.scales[0],
            "residual_multiplier": c.scales[1], "logits_scaling": c.scales[2],
            "attention_multiplier": c.attention}
    out |= {"n_routed_experts": x["n"], "moe_intermediate_size": x["ff"],
            "n_shared_experts": x["shared"] // x["ff"], "first_k_dense_replace": x["dense"],
            "norm_topk_prob": x["normalized"], "routed_scaling_factor": x["scale"],
            "n_group": x.get("groups", 1), "topk_group": x.get("groups_used", 1)}
    if c.arch == "dots1":
        return out | {"architectures": ["Dots1ForCausalLM"]}
    return out | {"architectures": ["Glm4MoeForCausalLM"], "use_qk_norm": True,
                  "num_nextn_predict_layers": 1,
                  "partial_rotary_factor": c.n_rot / c.head_dim}


def folder_of(c, drawn):
    w, _ = make_weights(c, drawn)
    out = {"model.embed_tokens.weight": w["embed"], "model.norm.weight": w["norm"]}
    if not c.tied:
        out["lm_head.weight"] = w["output"]
    layer = granite_layer if c.arch == "granitemoe" else deep_layer
    layers = [layer(l) for l in w["layers"]]
    layers += [mtp_layer(c, drawn)] if c.arch == "glm4moe" else []
    for i, l in enumerate(layers):
        out |= {f"model.layers.{i}.{k}": x for k, x in l.items()}
    return {k: (x, c.store if x.dim() > 1 else "F32") for k, x in out.items()}


def main():
    for name, c, _ in models():
        if name in ("granitemoe", "glm4moe", "dots1"):
            w, d = make_weights(c)
            if name == "glm4moe":
                make_mtp(c, w, d, golden_ids())
            lines = d.views(lambda drawn: folder_of(c, drawn))
            write_folder(Path(__file__).parent / "checkpoints", name, lines, settings(c))


if __name__ == "__main__":
    main()
