#!/usr/bin/env python3
"""Writes families/: recipes of tiny random models with latent attention, and their logits;
checkpoints/: recipes of some as folders, with the settings that transformers saves.

The logits are those of Hugging Face's implementations in double precision (eager attention), which
expand the latent rows to keys and values of every head. Needs PyTorch, gguf and transformers 5.

    tests/golden/make_latent.py        takes seconds, overwrites some of families
"""
import json
from pathlib import Path

import torch
import transformers
from drawn import Drawn, write_recipe
from make_families import N_VOCAB, golden_ids, mtp, rms, write_golden, write_mtp
from make_recurrent import one_by_one, write_folder

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_b_proj": "attn_q_b",
         "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
         "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.o_proj": "attn_output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
         "mlp.shared_experts.down_proj": "ffn_down_shexp", "mlp.gate": "ffn_gate_inp"}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}
SHORT, LONG = [1.0, 1.1, 1.3, 1.6], [1.2, 2.0, 3.5, 6.0]  # MiniCPM 3's factors


def layer_tensors(at, rest, x, c, joined):
    if rest == "self_attn.kv_b_proj.weight" and joined:
        return {at + "attn_kv_b.weight": x}
    if rest == "self_attn.kv_b_proj.weight":
        heads = x.reshape(c.num_attention_heads, -1, c.kv_lora_rank)
        k, v = heads.split([c.qk_nope_head_dim, c.v_head_dim], 1)
        return {at + "attn_k_b.weight": k.transpose(1, 2).contiguous(),
                at + "attn_v_b.weight": v.contiguous()}
    if rest == "mlp.experts.gate_up_proj":
        gate, up = x.chunk(2, 1)
        return {at + "ffn_gate_exps.weight": gate.contiguous(), at + "ffn_up_exps.weight": up.contiguous()}
    other = {"mlp.experts.down_proj": "ffn_down_exps.weight",
             "mlp.gate.e_score_correction_bias": "exp_probs_b.bias"}
    stem, _, suffix = rest.rpartition(".")
    return {at + (other[rest] if rest in other else f"{NAMES[stem]}.{suffix}"): x}


def tensors_of(state, c, joined):
    out = {"rope_factors_long.weight": torch.tensor(LONG), "rope_factors_short.weight":
           torch.tensor(SHORT)} if c.rope_parameters["rope_type"] == "longrope" else {}
    for key, x in state.items():
        if key.startswith("blk."):
            out[key] = x
            continue
        _, _, tail = key.partition("layers.")
        i, _, rest = tail.partition(".")
        out |= {WHOLE[key]: x} if key in WHOLE else layer_tensors(f"blk.{i}.", rest, x, c, joined)
    return {k: (x, "F16" if x.ndim > 1 else "F32") for k, x in out.items()}


def randomize(model):
    """Weights that make attention sharp and logits of a deviation of about 1."""
    d = Drawn()
    for name, p in model.named_parameters():
        if p.ndim == 1:
            p.data = d.draw(name, "F32", p.shape, 0.1, 1)
        else:
            gain = 2.0 if "_proj" in name and "self_attn" in name and "o_proj" not in name else 1.0
            p.data = d.draw(name, "F16", p.shape, gain / p.shape[-1] ** 0.5)
    for name, x in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            x.data = d.draw(name, "F32", x.shape, 0.3)
    return d


def metadata(name, arch, c, joined, sigmoid):
    a, rope = arch, c.rope_parameters
    rows = {"context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
            "block_count": c.num_hidden_layers, "feed_forward_length": c.intermediate_size,
            "attention.head_count": c.num_attention_heads, "attention.head_count_kv": 1,
            "attention.layer_norm_rms_epsilon": c.rms_norm_eps,
            "attention.kv_lora_rank": c.kv_lora_rank,
            "rope.dimension_count": c.qk_rope_head_dim, "rope.freq_base": float(rope["rope_theta"])}
    query, value = c.qk_nope_head_dim + c.qk_rope_head_dim, c.v_head_dim
    if joined:
        rows |= {"attention.head_count_kv": c.num_attention_heads, "attention.key_length": query}
        rows |= {"attention.value_length": value} if a == "deepseek2" else {}
    else:
        rows |= {"attention.key_length": c.kv_lora_rank + c.qk_rope_head_dim,
                 "attention.value_length": c.kv_lora_rank, "attention.key_length_mla": query,
                 "attention.value_length_mla": value}
    if a != "minicpm3":
        rows |= {"leading_dense_block_count": getattr(c, "first_k_dense_replace", 1),
                 "expert_count": c.n_routed_experts, "expert_used_count": c.num_experts_per_tok,
                 "expert_feed_forward_length": c.moe_intermediate_size,
                 "expert_shared_count": c.n_shared_experts,
                 "expert_weights_scale": float(c.routed_scaling_factor)}
        rows |= {"expert_weights_norm": True} if c.norm_topk_prob else {}
    if c.q_lora_rank:
        rows["attention.q_lora_rank"] = c.q_lora_rank
    if "llama_4_scaling_beta" in rope:
        rows["attention.temperature_scale"] = rope["llama_4_scaling_beta"]
    if getattr(c, "n_group", None):
        rows |= {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group}
    if sigmoid:
        rows["expert_gating_func"] = 2
    if rope["rope_type"] == "yarn":
        rows |= {"rope.scaling.type": "yarn", "rope.scaling.factor": rope["factor"],
                 "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
                 "rope.scaling.yarn_log_multiplier": 0.1 * rope["mscale_all_dim"]}
    return ({"general.architecture": a, "general.name": name, "general.alignment": 32} |
            {f"{a}.{k}": v for k, v in rows.items()})


def shape(embd, ff, n_layer, n_head, rank, rope, plain, value, **more):
    return {"hidden_size": embd, "intermediate_size": ff, "num_hidden_layers": n_layer,
            "num_attention_heads": n_head, "num_key_value_heads": n_head, "kv_lora_rank": rank,
            "qk_rope_head_dim": rope, "qk_nope_head_dim": plain, "v_head_dim": value,
            "rms_norm_eps": 1e-6} | more


def experts(n, used, ff, shared, scale, **more):
    return {"n_routed_experts": n, "num_experts_per_tok": used, "moe_intermediate_size": ff,
            "n_shared_experts": shared, "routed_scaling_factor": scale} | more


def models():
    """As V2-Lite, with its rows of 576 numbers; as V2, V3 and GLM-4.7-Flash."""
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32, "beta_slow": 1,
            "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 128}
    yield "deepseek2", "DeepseekV2", (
        shape(32, 48, 2, 4, 512, 64, 32, 16, q_lora_rank=None, first_k_dense_replace=1,
              rope_parameters=yarn) | experts(5, 2, 16, 2, 1.0, norm_topk_prob=False))
    yield "deepseek2-groups", "DeepseekV2", (
        shape(32, 40, 2, 2, 24, 8, 16, 20, q_lora_rank=16, first_k_dense_replace=1,
              rope_parameters=plain) | experts(9, 2, 16, 1, 3.5, n_group=3, topk_group=2,
                                               topk_method="group_limited_greedy"))
    yield "deepseek3", "DeepseekV3", (
        shape(32, 48, 3, 4, 32, 32, 16, 32, q_lora_rank=24, first_k_dense_replace=1,
              rope_parameters=yarn | {"mscale": 1.0, "mscale_all_dim": 1.0}) |
        experts(8, 3, 16, 1, 2.5, n_group=4, topk_group=2, norm_topk_prob=True))
    yield "glm47flash", "Glm4MoeLite", (
        shape(30, 44, 2, 3, 40, 6, 14, 18, q_lora_rank=22, rope_parameters=plain) |
        experts(6, 2, 20, 1, 1.8, rms_norm_eps=1e-5))
    yield "mistral4", "Mistral4", (
        shape(32, 40, 2, 2, 32, 16, 16, 16, q_lora_rank=24, first_k_dense_replace=0,
              rope_parameters=yarn | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
                                      "original_max_position_embeddings": 64}) |
        experts(6, 2, 16, 1, 1.0, norm_topk_prob=True))
    yield "minicpm3", "MiniCPM3", (
        shape(32, 48, 2, 2, 24, 8, 16, 16, q_lora_rank=24, rms_norm_eps=1e-5, scale_emb=12,
              scale_depth=1.4, dim_model_base=256,
              rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "factor": 1.0,
                               "short_factor": SHORT, "long_factor": LONG,
                               "original_max_position_embeddings": 512}))


def load(kind, config):
    """The model, what was drawn for it, its configuration."""
    c = getattr(transformers, kind + "Config")(
        vocab_size=N_VOCAB, max_position_embeddings=512, attn_implementation="eager",
        pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, **config)
    c._experts_implementation = "eager"  # others have no double precision
    model = getattr(transformers, kind + "ForCausalLM")(c).double().eval()
    return model, randomize(model), c


def make_mtp(model, layer, d, c):
    """The rows of `layer`, the last one, which is not run; embedding, output and norm are the model's."""
    at, n, ids, own = f"blk.{c.num_hidden_layers - 1}.nextn.", c.hidden_size, golden_ids(), model.model
    enorm, hnorm = (d.draw(f"{at}{name}.weight", "F32", (n,), 0.1, 1) for name in ("enorm", "hnorm"))
    project = d.draw(at + "eh_proj.weight", "F16", (n, 2 * n), 1 / n ** 0.5)
    hidden = own(ids[None], use_cache=False).last_hidden_state[0]
    own.layers = torch.nn.ModuleList([layer])

    def combine(ids, h):
        e = rms(own.embed_tokens.weight[ids], enorm, c.rms_norm_eps)
        return torch.cat([e, rms(h, hnorm, c.rms_norm_eps)], 1) @ project.T

    def run(x):
        return own(inputs_embeds=x[None], use_cache=False).last_hidden_state[0]

    return mtp(ids, hidden, combine, run, lambda h: (h, h @ model.lm_head.weight.T))


def folder_of(drawn, fused):
    """The makers' names; experts in one tensor or one by one."""
    out = {}
    for key, x in drawn.items():
        if key.startswith("blk."):
            key = "model.layers." + key.removeprefix("blk.").replace("nextn.", "")
        stem, _, name = key.rpartition("experts.")
        parts = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}.get(name)
        stacks = zip(parts, x.chunk(len(parts), 1)) if parts and not fused else ()
        out |= {f"{stem}experts.*.{part}_proj.weight": (y, "F16") for part, y in stacks}
        if not stacks:
            out[key] = (x, "F16" if x.ndim > 1 else "F32")
    one_by_one(out)
    return out


def settings(c, n_layer):
    out = json.loads(c.to_json_string()) | {"num_hidden_layers": n_layer}
    return {k: v for k, v in out.items() if k not in ("dtype", "transformers_version")}


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "families"
    for name, kind, config in models():
        has_mtp = name == "deepseek3"
        model, d, c = load(kind, config | {"num_hidden_layers": config["num_hidden_layers"] + has_mtp})
        last = model.model.layers[-1]
        if has_mtp:
            model.model.layers = model.model.layers[:-1]
        with torch.no_grad():
            logits = model(golden_ids()[None], use_cache=False).logits[0]
            if has_mtp:
                write_mtp(folder / f"{name}.mtp", make_mtp(model, last, d, c))
        arch = name if name in ("mistral4", "minicpm3") else "deepseek2"
        more = {"deepseek2.nextn_predict_layers": 1} if has_mtp else {}
        # one matrix for keys and values, as in older files
        for joined in {"minicpm3": (True,), "deepseek2": (False, True)}.get(name, (False,)):
            stem = "deepseek2-joined" if joined and name == "deepseek2" else name
            # a file of GLM-4.7-Flash does not name its scores
            keys = metadata(name, arch, c, joined, kind == "DeepseekV3")
            write_recipe(folder / f"{stem}.model", keys | more,
                         d.views(lambda drawn: tensors_of(drawn, c, joined)))
        if name in ("deepseek2", "deepseek3", "mistral4", "minicpm3"):
            lines = d.views(lambda drawn: folder_of(drawn, name == "mistral4"))
            write_folder(folder.parent / "checkpoints", name, lines, {"architectures": [kind + "ForCausalLM"]} |
                         settings(c, config["num_hidden_layers"]))
        rows = write_golden(folder / f"{name}.logits", golden_ids(), logits)
        print(f"{name}: standard deviation of logits {rows.std():.2f}")


if __name__ == "__main__":
    main()
