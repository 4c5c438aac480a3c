#!/usr/bin/env python3
"""Writes into families/ recipes of tiny random models with recurrent layers and the logits they give.

Double precision, token by token, from the papers and the models' published definitions: the gated
delta rule (arXiv 2412.06464), Mamba-2 (arXiv 2405.21060), LFM2's short convolutions. Tensors are
written as llama.cpp's converter does. Needs PyTorch and gguf.

checkpoints/ gets recipes of the same models as safetensors, in the order and with the names of the
models' makers: other heads first, logarithms of decays, norms less 1, factors apart.

    tests/golden/make_recurrent.py       takes seconds, overwrites its files
"""
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from drawn import Drawn, write_recipe
from make_families import (N_VOCAB, Layer, expert_feed_forward, golden_ids, halves, mtp, rms, rotate,
                           write_golden, write_mtp)
from torch.nn.functional import silu, softplus

STORE = "F16"  # type of matrices in the file


@dataclass
class Model:
    arch: str
    # of layers: a attention, d delta rule, s scan (Mamba-2), c convolution, b s with a; nemotron_h:
    # f feed-forward
    kinds: str
    n_embd: int = 32
    n_head: int = 2
    n_kv: int = 1
    head_dim: int = 32
    n_rot: int = 32
    n_ff: int = 48
    n_taps: int = 4
    n_key: int = 1  # key heads of the recurrent layers, their heads, and the sizes of both
    n_value: int = 3
    key_dim: int = 8
    value_dim: int = 12
    base: float = 10000.0
    eps: float = 1e-6
    scales: tuple = (1.0, 1.0, 1.0)  # embedding, residual, divisor of logits
    attention: float = 0  # scale of attention; 0 = 1 / sqrt(head_dim)
    no_rope: bool = False
    n_draft: int = 0  # MTP layers, which propose tokens
    experts: dict = field(default_factory=dict)  # as in make_families.py, like the next two
    store: str = STORE
    fused: str = ""

    @property
    def family(self):
        return "qwen35" if self.arch == "qwen3next" else self.arch.removesuffix("moe")


class Weights(Drawn):
    def matrix(self, name, n_out, n_in, gain=1.0):
        return self.draw(name + ".weight", STORE, (n_out, n_in), gain / math.sqrt(n_in))

    def vector(self, name, n, mean, std, suffix=".weight"):
        return self.draw(name + suffix, "F32", (n,), std, mean)

    def table(self, name, *shape, std=0.6):
        return self.draw(name + ".weight", "F32", shape, std)

    def decay(self, name, *shape):
        return self.draw(name, "-EXP", shape, 0.5, 0.5)


# ---- layers ------------------------------------------------------------------------------------

def attention(m, w, at, x, gated):
    """Returns a function of the normed rows x [token][n_embd]."""
    n, nq, nkv = x.shape[0], m.n_head * m.head_dim, m.n_kv * m.head_dim
    q = x @ w.matrix(f"{at}.attn_q", nq * (2 if gated else 1), m.n_embd, 1.3).T
    k = (x @ w.matrix(f"{at}.attn_k", nkv, m.n_embd, 1.3).T).reshape(n, m.n_kv, -1)
    v = (x @ w.matrix(f"{at}.attn_v", nkv, m.n_embd).T).reshape(n, m.n_kv, -1)
    q = q.reshape(n, m.n_head, -1)
    q, gate = q[..., :m.head_dim], q[..., m.head_dim:]  # of each head
    if m.family in ("qwen35", "lfm2"):
        q = rms(q, w.vector(f"{at}.attn_q_norm", m.head_dim, 1.2, 0.2), m.eps)
        k = rms(k, w.vector(f"{at}.attn_k_norm", m.head_dim, 1.2, 0.2), m.eps)
    freq = m.base ** (-torch.arange(0, m.n_rot, 2, dtype=torch.float64) / m.n_rot)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * freq * (0 if m.no_rope else 1)
    q, k = rotate(q, angles, 1.0), rotate(k, angles, 1.0)
    k, v = k.repeat_interleave(m.n_head // m.n_kv, 1), v.repeat_interleave(m.n_head // m.n_kv, 1)
    logits = torch.einsum("qhd,khd->hqk", q, k) * (m.attention or 1 / math.sqrt(m.head_dim))
    logits += torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)
    out = torch.einsum("hqk,khd->qhd", logits.softmax(-1), v).reshape(n, -1)
    if gated:
        out = out * torch.sigmoid(gate.reshape(n, -1))
    return out @ w.matrix(f"{at}.attn_output", m.n_embd, nq).T


def convolve(x, taps):
    """Over time, each channel; taps [channel][n]."""
    past = torch.cat([torch.zeros(taps.shape[1] - 1, x.shape[1], dtype=x.dtype), x])
    return sum(past[j:j + len(x)] * taps[:, j] for j in range(taps.shape[1]))


def recur(m, q, k, v, decay, rate, delta):
    """q, k [token][head][key_dim], v [token][head][value_dim]; decay, rate [token][head]."""
    state = torch.zeros(m.n_value, m.key_dim, m.value_dim, dtype=torch.float64)
    out = []
    for t in range(len(q)):
        state = state * decay[t][:, None, None]
        new = v[t] - torch.einsum("hkv,hk->hv", state, k[t]) if delta else v[t]
        state = state + torch.einsum("hk,hv->hkv", k[t], new * rate[t][:, None])
        out.append(torch.einsum("hkv,hk->hv", state, q[t]))
    return torch.stack(out)


def unit(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def delta_layer(m, w, at, x):
    n, nk, nv = x.shape[0], m.n_key * m.key_dim, m.n_value * m.value_dim
    qkv = x @ w.matrix(f"{at}.attn_qkv", 2 * nk + nv, m.n_embd).T
    z = x @ w.matrix(f"{at}.attn_gate", nv, m.n_embd).T
    times, beside = m.n_value // m.n_key, m.arch == "qwen3next"
    if beside:  # one matrix: of each key head the rows of its heads' beta, then of their alpha
        both = x @ w.matrix(f"{at}.ssm_ba", 2 * m.n_value, m.n_embd).T
        beta, step = (p.reshape(n, -1) for p in both.reshape(n, m.n_key, 2, times).unbind(2))
    else:
        beta = x @ w.matrix(f"{at}.ssm_beta", m.n_value, m.n_embd).T
        step = x @ w.matrix(f"{at}.ssm_alpha", m.n_value, m.n_embd).T
    beta = torch.sigmoid(beta)
    qkv = silu(convolve(qkv, w.table(f"{at}.ssm_conv1d", 2 * nk + nv, m.n_taps)))
    a = w.decay(f"{at}.ssm_a", m.n_value)
    step = softplus(step + w.vector(f"{at}.ssm_dt", m.n_value, -2.5, 0.5, ".bias"))
    q, k = (p.reshape(n, m.n_key, -1) for p in (qkv[:, :nk], qkv[:, nk:2 * nk]))
    q, k = (unit(p).repeat_interleave(times, 1) if beside else unit(p).repeat(1, times, 1)
            for p in (q, k))  # heads of one key head are neighbours, or n_key apart
    q = q / math.sqrt(m.key_dim)
    v = qkv[:, 2 * nk:].reshape(n, m.n_value, -1)
    y = recur(m, q, k, v, torch.exp(a * step), beta, True)
    y = rms(y, w.vector(f"{at}.ssm_norm", m.value_dim, 1, 0.1), m.eps).reshape(n, -1) * silu(z)
    return y @ w.matrix(f"{at}.ssm_out", m.n_embd, nv).T


def scan_layer(m, w, at, x):
    n, nk, nv = x.shape[0], m.n_key * m.key_dim, m.n_value * m.value_dim
    rows = x @ w.matrix(f"{at}.ssm_in", 2 * nv + 2 * nk + m.n_value, m.n_embd).T
    z, xbc, step = rows.split([nv, nv + 2 * nk, m.n_value], 1)
    xbc = convolve(xbc, w.table(f"{at}.ssm_conv1d", nv + 2 * nk, m.n_taps))
    xbc = silu(xbc + w.vector(f"{at}.ssm_conv1d", nv + 2 * nk, 0, 0.3, ".bias"))
    a = w.decay(f"{at}.ssm_a", m.n_value, 1)[:, 0]
    d = w.draw(f"{at}.ssm_d", "F32", (m.n_value, 1), 0.3, 1)
    step = softplus(step + w.vector(f"{at}.ssm_dt", m.n_value, -2.5, 0.5, ".bias"))
    v, k, q = xbc.split([nv, nk, nk], 1)
    v = v.reshape(n, m.n_value, -1)
    q, k = (p.reshape(n, m.n_key, -1).repeat_interleave(m.n_value // m.n_key, 1) for p in (q, k))
    y = recur(m, q, k, v, torch.exp(a * step), step, False) + d * v
    y = (y.reshape(n, -1) * silu(z)).reshape(n, m.n_key, -1)
    y = rms(y, w.table(f"{at}.ssm_norm", m.n_key, nv // m.n_key), m.eps).reshape(n, -1)
    return y @ w.matrix(f"{at}.ssm_out", m.n_embd, nv).T


def convolution_layer(m, w, at, x):
    rows = x @ w.matrix(f"{at}.shortconv.in_proj", 3 * m.n_embd, m.n_embd).T
    b, c, x = rows.chunk(3, 1)
    y = c * convolve(b * x, w.table(f"{at}.shortconv.conv", m.n_embd, m.n_taps))
    return y @ w.matrix(f"{at}.shortconv.out_proj", m.n_embd, m.n_embd).T


def squared(m, w, at, x):
    y = torch.relu(x @ w.matrix(f"{at}.ffn_up", m.n_ff, m.n_embd, 1.5).T) ** 2
    return y @ w.matrix(f"{at}.ffn_down", m.n_embd, m.n_ff).T


LAYERS = {"f": squared, "d": delta_layer, "s": scan_layer, "c": convolution_layer, "b": scan_layer}


def layer(m, w, i, kind, x):
    at, residual = f"blk.{i}", m.scales[1]
    second = "post_attention_norm" if m.family == "qwen35" else "ffn_norm"
    h = rms(x, w.vector(f"{at}.attn_norm", m.n_embd, 1, 0.1), m.eps)
    added = attention(m, w, at, h, m.family == "qwen35") if kind in "ab" else 0
    if kind != "a":
        added = added + LAYERS[kind](m, w, at, h)
    x = x + residual * added
    if m.arch == "nemotron_h":
        return x
    suffix = "" if m.arch == "falcon-h1" else ".weight"
    h = rms(x, w.vector(f"{at}.{second}", m.n_embd, 1, 0.1, suffix), m.eps)
    dense, l = not m.experts or i < m.experts.get("dense", 0), Layer(m, w, i)
    y = expert_feed_forward(m, l.feed_forward(m.n_ff) if dense else l.experts(), h)
    return x + residual * y


def hidden(m, w, ids):
    x = w.matrix("token_embd", N_VOCAB, m.n_embd)[ids] * m.scales[0]
    for i, kind in enumerate(m.kinds):
        x = layer(m, w, i, kind, x)
    last = "token_embd_norm" if m.family == "lfm2" else "output_norm"
    return rms(x, w.vector(last, m.n_embd, 1, 0.1), m.eps)


def run(m, w, ids):
    return hidden(m, w, ids) @ w.matrix("token_embd", N_VOCAB, m.n_embd).T / m.scales[2]


def make_mtp(m, w, ids):
    """The embedding and the output are the model's; the dense model has a norm of its own."""
    n, table, h = len(m.kinds), w.matrix("token_embd", N_VOCAB, m.n_embd), hidden(m, w, ids)
    enorm, hnorm = (w.vector(f"blk.{n}.nextn.{name}", m.n_embd, 1, 0.1) for name in ("enorm", "hnorm"))
    project = w.matrix(f"blk.{n}.nextn.eh_proj", m.n_embd, 2 * m.n_embd)
    norm = w.vector("output_norm" if m.experts else f"blk.{n}.nextn.shared_head_norm", m.n_embd, 1, 0.1)

    def combine(ids, h):
        return torch.cat([rms(table[ids], enorm, m.eps), rms(h, hnorm, m.eps)], 1) @ project.T

    def head(x):
        h = rms(x, norm, m.eps)
        return h, h @ table.T

    return mtp(ids, h, combine, lambda x: layer(m, w, n, "a", x), head)


# ---- files -------------------------------------------------------------------------------------

def metadata(m, name):
    a = m.arch
    out = {"general.architecture": a, "general.name": name, "general.alignment": 32,
           f"{a}.context_length": 512, f"{a}.embedding_length": m.n_embd,
           f"{a}.block_count": len(m.kinds) + m.n_draft, f"{a}.feed_forward_length": m.n_ff if a != "nemotron_h" else
           [m.n_ff if kind == "f" else 0 for kind in m.kinds],
           f"{a}.attention.head_count": m.n_head,
           f"{a}.attention.layer_norm_rms_epsilon": m.eps, f"{a}.rope.freq_base": m.base,
           f"{a}.rope.dimension_count": m.n_rot, f"{a}.attention.key_length": m.head_dim,
           f"{a}.attention.value_length": m.head_dim}
    heads = [m.n_kv if kind in "ab" else 0 for kind in m.kinds]
    out[f"{a}.attention.head_count_kv"] = m.n_kv if m.family in ("qwen35", "falcon-h1") else heads
    if m.family == "lfm2":
        out[f"{a}.shortconv.l_cache"] = m.n_taps
    else:
        out |= {f"{a}.ssm.conv_kernel": m.n_taps, f"{a}.ssm.state_size": m.key_dim,
                f"{a}.ssm.group_count": m.n_key, f"{a}.ssm.time_step_rank": m.n_value,
                f"{a}.ssm.inner_size": m.n_value * m.value_dim}
    if m.family == "qwen35":
        out |= {f"{a}.nextn_predict_layers": m.n_draft} if m.n_draft else {}
        out |= {f"{a}.full_attention_interval": m.kinds.index("a") + 1,
                f"{a}.rope.dimension_sections": [2, 1, 1, 0]}
    keys = {"n": "expert_count", "used": "expert_used_count", "ff": "expert_feed_forward_length",
            "shared": "expert_shared_feed_forward_length", "dense": "leading_dense_block_count"}
    out |= {f"{a}.{key}": m.experts[k] for k, key in keys.items() if k in m.experts}
    if m.experts.get("sigmoid"):
        out[f"{a}.expert_gating_func"] = 2
    if a == "granitehybrid":
        out |= {"granitehybrid.embedding_scale": m.scales[0], "granitehybrid.logit_scale": m.scales[2],
                "granitehybrid.residual_scale": m.scales[1],
                "granitehybrid.attention.scale": m.attention,
                "granitehybrid.rope.scaling.finetuned": False}
    return out


# ---- checkpoints -------------------------------------------------------------------------------

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm",
    "token_embd_norm": "model.embedding_norm", "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z", "ssm_beta": "in_proj_b",
    "ssm_alpha": "in_proj_a", "ssm_conv1d": "conv1d", "ssm_norm": "norm",
    "ssm_out": "out_proj", "ssm_in": "in_proj", "ssm_a": "A_log", "ssm_d": "D",
    "ssm_ba": "in_proj_ba", "ffn_gate_inp": "mlp.gate",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
    "ffn_gate_exps": "mlp.experts.*.gate_proj", "ffn_up_exps": "mlp.experts.*.up_proj",
    "ffn_down_exps": "mlp.experts.*.down_proj", "nextn.eh_proj": "fc",
    "nextn.enorm": "pre_fc_norm_embedding", "nextn.hnorm": "pre_fc_norm_hidden",
    "nextn.shared_head_norm": "norm"}
NEMOTRON_NAMES = NAMES | {
    "token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "attn_norm": "norm",
    "attn_q": "mixer.q_proj", "attn_k": "mixer.k_proj", "attn_v": "mixer.v_proj",
    "attn_output": "mixer.o_proj", "ffn_up": "mixer.up_proj", "ffn_down": "mixer.down_proj"}
FALCON_NAMES = NAMES | {
    "output_norm": "model.final_layernorm", "ffn_norm": "pre_ff_layernorm",
    "ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj",
    "ffn_down": "feed_forward.down_proj"}
FALCON_FACTORS = {"embedding_multiplier": 4.0, "lm_head_multiplier": 0.25, "key_multiplier": 0.5,
                  "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.125,
                  "ssm_in_multiplier": 0.5, "ssm_out_multiplier": 8.0,
                  "ssm_multipliers": [0.5, 2.0, 4.0, 0.25, 0.125], "mlp_multipliers": [4.0, 0.5]}
LFM2_NAMES = NAMES | {
    "attn_norm": "operator_norm", "ffn_norm": "ffn_norm", "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm",
    "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
    "shortconv.in_proj": "conv.in_proj", "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj", "ffn_gate_inp": "feed_forward.gate",
    "exp_probs_b": "feed_forward.expert_bias", "ffn_gate_exps": "feed_forward.experts.*.w1",
    "ffn_up_exps": "feed_forward.experts.*.w3", "ffn_down_exps": "feed_forward.experts.*.w2"}


def grouped(m, x, first, size):
    """Heads from row `first` on, of `size` rows: those of one key head together."""
    per = m.n_value // m.n_key
    heads = x[first:].reshape(per, m.n_key, size, -1).transpose(0, 1)
    return torch.cat([x[:first], heads.reshape(x[first:].shape)])


def ungroup_deltas(m, name, x):
    keys = 2 * m.n_key * m.key_dim
    if name in ("attn_qkv", "ssm_conv1d"):
        return grouped(m, x, keys, m.value_dim)
    if name == "attn_gate":
        return grouped(m, x, 0, m.value_dim)
    if name in ("ssm_beta", "ssm_alpha", "ssm_a", "ssm_dt"):
        return grouped(m, x, 0, 1)
    return grouped(m, x.T, 0, m.value_dim).T if name == "ssm_out" else x


def without_factors(m, name, x):
    """What Falcon-H1's folders have in place of x; the factors are powers of two."""
    f = FALCON_FACTORS
    factor = {"token_embd": f["embedding_multiplier"], "output": f["lm_head_multiplier"],
              "attn_q": f["attention_in_multiplier"], "attn_v": f["attention_in_multiplier"],
              "attn_k": f["attention_in_multiplier"] * f["key_multiplier"],
              "attn_output": f["attention_out_multiplier"], "ssm_out": f["ssm_out_multiplier"],
              "ffn_gate": f["mlp_multipliers"][0], "ffn_down": f["mlp_multipliers"][1]}
    if name != "ssm_in":
        return x / factor.get(name, 1.0)
    nv, nk = m.n_value * m.value_dim, m.n_key * m.key_dim
    parts = [torch.full((n,), s) for n, s in zip((nv, nv, nk, nk, m.n_value), f["ssm_multipliers"])]
    return x / (f["ssm_in_multiplier"] * torch.cat(parts))[:, None]


def together(m, at, out):
    """Qwen3-Next: the query, key, values and gates of a key head are neighbours."""
    qkv, z = (out.pop(f"{at}linear_attn.in_proj_{part}.weight")[0] for part in ("qkv", "z"))
    nk = m.n_key * m.key_dim
    parts = (qkv[:nk], qkv[nk:2 * nk], qkv[2 * nk:], z)
    heads = [p.reshape(m.n_key, -1, m.n_embd) for p in parts]
    out[f"{at}linear_attn.in_proj_qkvz.weight"] = (torch.cat(heads, 1).reshape(-1, m.n_embd), STORE)


def one_by_one(out):
    """Experts apart."""
    for name in [n for n in out if "*" in n]:
        stack, kind = out.pop(name)
        out |= {name.replace("*", str(i)): (x, kind) for i, x in enumerate(stack)}


def one_stack(out):
    """Qwen3.5: all experts in one tensor, gate above up."""
    for at in {name.partition("*")[0] for name in out if "*" in name}:
        gate, up, down = (out.pop(f"{at}*.{n}_proj.weight")[0] for n in ("gate", "up", "down"))
        out[at + "gate_up_proj"] = (torch.cat([gate, up], 1), STORE)
        out[at + "down_proj"] = (down, STORE)


def checkpoint(m, tensors):
    out = {}
    names = {"lfm2": LFM2_NAMES, "nemotron_h": NEMOTRON_NAMES,
             "falcon-h1": FALCON_NAMES}.get(m.family, NAMES)
    part = {"qwen35": "linear_attn.", "granitehybrid": "mamba.", "falcon-h1": "mamba.",
            "nemotron_h": "mixer."}.get(m.family, "")
    layers = "backbone.layers" if m.arch == "nemotron_h" else "model.layers"
    for full, (x, kind) in tensors.items():
        at = ""
        short = full
        if full.startswith("blk."):
            _, i, short = full.split(".", 2)
            at = f"{layers}.{i}." if int(i) < len(m.kinds) else "mtp.layers.0."
            if short.startswith("nextn."):
                at = "mtp."
        short, _, suffix = short.rpartition(".") if short.endswith(("weight", "bias")) else \
            (short, "", "weight" if short.endswith("norm") else "")
        if m.arch == "granitehybrid" and short in ("attn_q", "attn_k"):
            x = halves(x, len(x) // m.head_dim, m.head_dim)
        if m.arch == "falcon-h1":
            x = without_factors(m, short, x)
        if m.family == "qwen35":
            x = x if m.arch == "qwen3next" else ungroup_deltas(m, short, x)
            if kind == "F32" and short.endswith("norm") and short != "ssm_norm":
                x = x - 1
        if short in ("ssm_a", "ssm_d") or (short == "ssm_norm" and part != "linear_attn."):
            x = x.reshape(-1)
        if short in ("ssm_conv1d", "shortconv.conv") and x.dim() == 2:
            x = x[:, None]
        if short == "ffn_gate_inp_shexp":
            x = x[None]
        if short == "exp_probs_b":
            suffix = ""
        name = "dt_bias" if short == "ssm_dt" else names[short]
        name = name + ("." + suffix if suffix and short != "ssm_dt" else "")
        out[at + (part if short.startswith("ssm_") else "") + name] = (x, kind)
    if m.arch == "falcon-h1":  # tied in the file with another factor than here
        out["lm_head.weight"] = (without_factors(m, "output", tensors["token_embd.weight"][0]), STORE)
    if m.arch == "qwen35moe":
        one_stack(out)
    one_by_one(out)
    for i, kind in enumerate(m.kinds) if m.arch == "qwen3next" else ():
        if kind == "d":
            together(m, f"model.layers.{i}.", out)
    if m.arch == "granitehybrid":
        for i in range(len(m.kinds)):
            at = f"model.layers.{i}."
            gate, up = (out.pop(at + f"mlp.{n}_proj.weight") for n in ("gate", "up"))
            out[at + "shared_mlp.input_linear.weight"] = (torch.cat([gate[0], up[0]]), STORE)
            out[at + "shared_mlp.output_linear.weight"] = out.pop(at + "mlp.down_proj.weight")
    return out


def config(m):
    full = {"a": "full_attention"}
    out = {"hidden_size": m.n_embd, "num_hidden_layers": len(m.kinds), "vocab_size": N_VOCAB,
           "num_attention_heads": m.n_head, "num_key_value_heads": m.n_kv, "head_dim": m.head_dim,
           "intermediate_size": m.n_ff, "max_position_embeddings": 512, "rms_norm_eps": m.eps,
           "tie_word_embeddings": True, "rope_parameters": {
               "rope_type": "default", "rope_theta": m.base,
               "partial_rotary_factor": m.n_rot / m.head_dim, "mrope_section": [2, 1, 1]}}
    x = m.experts
    if x:
        out |= {"num_experts": x["n"], "num_experts_per_tok": x["used"],
                "moe_intermediate_size": x["ff"], "norm_topk_prob": x["normalized"]}
    if m.family == "lfm2":
        out |= {"architectures": ["Lfm2MoeForCausalLM" if x else "Lfm2ForCausalLM"],
                "conv_L_cache": m.n_taps, "norm_eps": m.eps}
        out |= {"num_dense_layers": x["dense"], "use_expert_bias": True} if x else {}
        kinds = full | {"c": "conv"}
    elif m.family == "qwen35":
        kind = {"qwen35": "Qwen3_5", "qwen35moe": "Qwen3_5Moe", "qwen3next": "Qwen3Next"}[m.arch]
        if x:
            out["shared_expert_intermediate_size"] = x["shared"]
        out |= {"architectures": [kind + "ForCausalLM"], "linear_conv_kernel_dim": m.n_taps,
                "linear_num_key_heads": m.n_key, "linear_num_value_heads": m.n_value,
                "linear_key_head_dim": m.key_dim, "linear_value_head_dim": m.value_dim}
        kinds = full | {"d": "linear_attention"}
    elif m.arch == "falcon-h1":
        return out | FALCON_FACTORS | {
            "architectures": ["FalconH1ForCausalLM"], "mamba_d_conv": m.n_taps,
            "mamba_n_groups": m.n_key, "mamba_n_heads": m.n_value, "mamba_d_state": m.key_dim,
            "mamba_d_head": m.value_dim, "mamba_d_ssm": m.n_value * m.value_dim,
            "mamba_rms_norm": True, "mamba_norm_before_gate": False, "tie_word_embeddings": False,
            "time_step_limit": [0.0, math.inf]}
    elif m.arch == "nemotron_h":
        kinds = {"a": "*", "s": "M", "f": "-"}
        return out | {
            "architectures": ["NemotronHForCausalLM"], "conv_kernel": m.n_taps,
            "n_groups": m.n_key, "mamba_num_heads": m.n_value, "ssm_state_size": m.key_dim,
            "mamba_head_dim": m.value_dim, "layer_norm_epsilon": m.eps, "mlp_hidden_act": "relu2",
            "hybrid_override_pattern": "".join(kinds[kind] for kind in m.kinds)}
    else:
        out |= {"architectures": ["GraniteMoeHybridForCausalLM"], "mamba_d_conv": m.n_taps,
                "mamba_n_groups": m.n_key, "mamba_n_heads": m.n_value, "mamba_d_state": m.key_dim,
                "mamba_d_head": m.value_dim, "shared_intermediate_size": m.n_ff,
                "embedding_multiplier": m.scales[0], "residual_multiplier": m.scales[1],
                "logits_scaling": m.scales[2], "attention_multiplier": m.attention,
                "position_embedding_type": "nope"}
        kinds = {"a": "attention", "s": "mamba"}
    return out | {"layer_types": [kinds[kind] for kind in m.kinds]}


def byte_symbols():
    """The symbols of a byte-level BPE (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]


def write_folder(folder, name, lines, settings):
    """The recipe and the settings of a checkpoint; all have the same tokenizer, of bytes."""
    folder.mkdir(exist_ok=True)
    write_recipe(folder / f"{name}.model", {}, lines)
    (folder / f"{name}.json").write_text(json.dumps(settings, indent=1) + "\n")
    symbols = byte_symbols() + [f"<|{i}|>" for i in range(256, N_VOCAB)]
    split = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
             "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
    words = {
        "added_tokens": [{"id": i, "content": symbols[i], "special": True}
                         for i in range(256, N_VOCAB)],
        "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated",
             "invert": False}, {"type": "ByteLevel", "add_prefix_space": False,
                                "use_regex": False}]},
        "model": {"type": "BPE", "vocab": {s: i for i, s in enumerate(symbols[:256])},
                  "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(words) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|256|>"}) + "\n")


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "families"
    ids = golden_ids()
    for name, m in {
            "qwen35": Model("qwen35", "ddad", n_rot=8, n_key=2, n_value=4, n_draft=1),
            "lfm2": Model("lfm2", "cac", n_taps=3, head_dim=16, n_rot=16, base=1000000.0, eps=1e-5),
            "qwen35moe": Model("qwen35moe", "da", n_rot=8, n_key=2, n_value=4, n_draft=1, experts=dict(
                n=5, used=2, ff=16, shared=24, shared_gate=True, normalized=True)),
            "lfm2moe": Model("lfm2moe", "ca", n_taps=3, head_dim=16, n_rot=16, eps=1e-5,
                             experts=dict(n=6, used=2, ff=16, dense=1, sigmoid=True, normalized=True,
                                          choice_bias=True)),
            "granitehybrid": Model("granitehybrid", "sas", n_kv=2, head_dim=16, n_rot=16,
                                   n_value=4, value_dim=16, eps=1e-5, scales=(6.0, 0.22, 4.0),
                                   attention=0.11, no_rope=True),
            "falcon-h1": Model("falcon-h1", "bb", n_kv=2, head_dim=16, n_rot=16, n_key=2,
                               n_value=4, value_dim=8, eps=1e-5),
            "qwen3next": Model("qwen3next", "da", n_rot=8, n_key=2, n_value=4, experts=dict(
                n=5, used=2, ff=16, shared=24, shared_gate=True, normalized=True)),
            "nemotron_h": Model("nemotron_h", "sfaf", n_kv=2, head_dim=16, n_rot=16, n_key=2,
                                n_value=4, value_dim=8, eps=1e-5, no_rope=True)}.items():
        w = Weights()
        if m.n_draft:
            write_mtp(folder / f"{name}.mtp", make_mtp(m, w, ids))
        rows = write_golden(folder / f"{name}.logits", ids, run(m, w, ids))
        write_recipe(folder / f"{name}.model", metadata(m, name), w.tensors())
        lines = [*w.views(lambda drawn: checkpoint(m, {
            k: (x, STORE if w.how[k][0] == STORE else "F32") for k, x in drawn.items()}))]
        write_folder(folder.parent / "checkpoints", name, lines, config(m))
        if name == "nemotron_h":  # as transformers 5 saves it
            settings = {k: v for k, v in config(m).items() if k not in ("num_hidden_layers", "hybrid_override_pattern")}
            kinds = {"a": "full_attention", "s": "linear_attention", "f": "mlp"}
            write_folder(folder.parent / "checkpoints", name + "-listed", lines, settings | {
                "layers_block_type": [kinds[kind] for kind in m.kinds]})
        print(f"{name}: standard deviation of logits {rows.std():.2f}")


if __name__ == "__main__":
    main()
