#!/usr/bin/env python3
"""Writes families/: the recipe of a tiny random model of every family, NAME.model, and the logits it
must give; greedy.txt: what models with experts answer.

A separate implementation in double precision, from the papers and the models' published
definitions; it shares nothing with the C code. Weights are drawn (drawn.py) in GGUF's order of rows
and computed with in the order of checkpoints. Needs PyTorch and gguf.

    tests/golden/make_families.py        takes seconds, overwrites tests/golden/families
"""
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path

import torch
from drawn import Drawn, write_recipe

N_VOCAB, N_TOKENS = 300, 300
POSITIONS = [0, 1, 2, 6, 7, 63, 64, 126, 127, 128, 129, 200, 255, 256, 298, 299]


@dataclass
class Config:
    arch: str
    store: str = "F16"  # type of matrices in the file, but of those that kinds names
    kinds: dict = field(default_factory=dict)
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    n_kv: int = 2
    head_dim: int = 32
    n_rot: int = 0  # 0 = head_dim
    n_ff: int = 96
    tied: bool = True
    size: float = 1.0  # of the logits, about
    eps: float = 1e-5
    base: float = 10000.0
    n_ctx: int = 512
    n_orig: int = 0  # original_context_length; 0 = not written
    scaling: dict = field(default_factory=dict)
    qkv_bias: bool = False
    other_bias: bool = False
    qk_norm: str = ""  # "head" or "row"
    norms: str = "before"  # of what each half of a layer reads, "after" of what it adds, or "both"
    ffn_norm: str = "ffn_norm"  # its name in GGUF
    no_rope: int = 0  # every n-th layer does not rotate
    fused: str = ""  # "qkv", "ffn": gate and up
    pairs: bool = False  # in GGUF, rows that are rotated together are adjacent
    scales: tuple = (1.0, 1.0, 1.0)  # embedding, residual, divisor of logits
    attention: float = 0  # scale of attention; 0 = 1 / sqrt(head_dim)
    growth: float = 0  # of queries beyond n_orig: Ministral 3's llama_4_scaling_beta
    experts: dict = field(default_factory=dict)  # see route() and make_experts()
    write: dict = field(default_factory=dict)  # metadata beyond the shape

    def __post_init__(self):
        self.n_rot = self.n_rot or self.head_dim


# ---- weights -----------------------------------------------------------------------------------

NORMS = {"before": ("attn_norm", "ffn_norm"), "after": ("post_attention_norm", "post_ffw_norm")}
NORMS["both"] = NORMS["before"] + NORMS["after"]


def halves(x, n_head, n_rot):
    """GGUF's rows of heads that are rotated in pairs, from 2i with 2i + 1 to i with i + n_rot / 2."""
    rest = x.shape[1:]
    heads = x.reshape(n_head, -1, *rest)
    pairs = heads[:, :n_rot].reshape(n_head, -1, 2, *rest).transpose(1, 2)
    return torch.cat([pairs.reshape(n_head, n_rot, *rest), heads[:, n_rot:]], 1).reshape(x.shape)


class Layer:
    """Draws the tensors of layer i under their names in GGUF."""

    def __init__(self, c, d, i):
        self.c, self.d, self.at = c, d, f"blk.{i}."

    def vector(self, name, n, mean, std):
        return self.d.draw(self.at + name, "F32", (n,), std, mean)

    def matrix(self, name, *shape, gain=1.0):
        kind = self.c.kinds.get(name, self.c.store)
        x = self.d.draw(f"{self.at}{name}.weight", kind, shape, gain / math.sqrt(shape[-1]))
        if self.c.store != "NVFP4":
            return x
        factor = self.vector(name + ".scale", shape[0] if len(shape) > 2 else 1, 1 / 8, 1 / 64)
        return x * factor.reshape(-1, *[1] * (len(shape) - 1))

    def feed_forward(self, n_ff, suffix=""):
        c = self.c
        if "ffn" in c.fused:
            gate, up = self.matrix("ffn_up" + suffix, 2 * n_ff, c.n_embd, gain=1.2).chunk(2)
        else:
            gate = self.matrix("ffn_gate" + suffix, n_ff, c.n_embd, gain=1.5)
            up = self.matrix("ffn_up" + suffix, n_ff, c.n_embd)
        return {"gate": gate, "up": up, "down": self.matrix("ffn_down" + suffix, c.n_embd, n_ff)}

    def experts(self):
        """Weights of the experts, stacked, and of the shared ones, a dense feed-forward."""
        c, x = self.c, self.c.experts
        n, ff, shared = x["n"], x["ff"], x.get("shared", 0)
        l = {"router": self.d.draw(self.at + "ffn_gate_inp.weight", "F32", (n, c.n_embd),
                                   2 / math.sqrt(c.n_embd))}
        for name, n_out, n_in, gain in (("gate", ff, c.n_embd, 1.5), ("up", ff, c.n_embd, 1.0),
                                        ("down", c.n_embd, ff, 1.0)):
            l[name + "_exps"] = self.matrix(f"ffn_{name}_exps", n, n_out, n_in, gain=gain)
        if x.get("choice_bias"):
            l["choice_b"] = self.vector("exp_probs_b.bias", n, 0, 0.3)
        if shared:
            l |= self.feed_forward(shared, "_shexp")
        if x.get("shared_gate"):
            l["shared_gate"] = self.vector("ffn_gate_inp_shexp.weight", c.n_embd, 0, 0.3)
        return l

    def attention(self):
        c = self.c
        nq, nkv = c.n_head * c.head_dim, c.n_kv * c.head_dim
        if "qkv" in c.fused:
            q, k, v = self.matrix("attn_qkv", nq + 2 * nkv, c.n_embd, gain=1.2).split([nq, nkv, nkv])
        else:
            q, k = (self.matrix(f"attn_{p}", n, c.n_embd, gain=1.3) for p, n in (("q", nq), ("k", nkv)))
            v = self.matrix("attn_v", nkv, c.n_embd)
        l = {"q": q, "k": k, "v": v, "o": self.matrix("attn_output", c.n_embd, nq)}
        if c.qkv_bias:
            l |= {f"{p}_b": self.vector(f"attn_{p}.bias", n, 0, 0.5)
                  for p, n in (("q", nq), ("k", nkv), ("v", nkv))}
        for key, n in (("q", c.n_head), ("k", c.n_kv)) if c.pairs else ():
            l |= {k: halves(l[k], n, c.n_rot) for k in (key, key + "_b") if k in l}
        if c.qk_norm:
            n = (c.head_dim, c.head_dim) if c.qk_norm == "head" else (nq, nkv)
            l |= {f"{p}_norm": self.vector(f"attn_{p}_norm.weight", m, 1.2, 0.2)
                  for p, m in zip("qk", n)}
        return l

    def all(self, i):
        c = self.c
        names = {key: c.ffn_norm if key == "ffn_norm" else key for key in NORMS[c.norms]}
        l = {key: self.vector(name + ".weight", c.n_embd, 1, 0.1) for key, name in names.items()}
        sparse = c.experts and i >= c.experts.get("dense", 0)
        l |= self.attention() | (self.experts() if sparse else self.feed_forward(c.n_ff))
        if c.other_bias:
            l |= {key: self.vector(name + ".bias", n, 0, 0.3) for key, name, n in (
                ("o_b", "attn_output", c.n_embd), ("gate_b", "ffn_gate", c.n_ff),
                ("up_b", "ffn_up", c.n_ff), ("down_b", "ffn_down", c.n_embd))}
        return l


def make_weights(c, drawn=None):
    """The weights as the reference reads them, and as they were drawn."""
    d = Drawn(drawn)
    std = 1 / math.sqrt(c.n_embd)
    embedding = c.kinds.get("token_embd", c.store)
    w = {"embed": d.draw("token_embd.weight", embedding, (N_VOCAB, c.n_embd), std),
         "norm": d.draw("output_norm.weight", "F32", (c.n_embd,), 0.1, 1)}
    w["output"] = w["embed"] if c.tied else d.draw("output.weight", c.store, (N_VOCAB, c.n_embd), c.size * std)
    w["layers"] = [Layer(c, d, i).all(i) for i in range(c.n_layer)]
    return w, d


# ---- the reference ----------------------------------------------------------------------------

def frequencies(c, long):
    """Radians per position of each pair, and the factor on cosines and sines."""
    s, n = c.scaling, c.n_rot // 2
    inv = c.base ** (-torch.arange(0, c.n_rot, 2, dtype=torch.float64) / c.n_rot)
    kind = s.get("kind", "none")
    if kind == "linear":
        return inv / s["factor"], 1.0
    if kind == "llama3":  # transformers, modeling_rope_utils
        wavelen = 2 * math.pi / inv
        low, high = c.n_orig / s["low"], c.n_orig / s["high"]
        smooth = (c.n_orig / wavelen - s["low"]) / (s["high"] - s["low"])
        mixed = (1 - smooth) * inv / s["factor"] + smooth * inv
        out = torch.where(wavelen > low, inv / s["factor"], inv)
        middle = (wavelen >= high) & (wavelen <= low)
        return torch.where(middle, mixed, out), 1.0
    if kind == "yarn":  # arXiv 2309.00071, the authors' code

        def dimension(turns):
            return c.n_rot * math.log(c.n_orig / (turns * 2 * math.pi)) / (2 * math.log(c.base))

        low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), c.n_rot - 1)
        ramp = ((torch.arange(n, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
        grow = 0.1 * math.log(s["factor"])
        factor = (1 + grow) / (1 + s.get("all_dims", 0) * grow)
        return inv / s["factor"] * ramp + inv * (1 - ramp), s.get("attention_factor", factor)
    if kind == "longrope":
        scale = c.n_ctx / c.n_orig
        factor = math.sqrt(1 + math.log(scale) / math.log(c.n_orig))
        return inv / s["long" if long else "short"].double(), factor
    return inv, 1.0


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x, angles, factor):
    """x [token][head][head_dim], its first n_rot numbers rotated: i with i + n_rot / 2."""
    n = angles.shape[1]
    cos, sin = angles.cos()[:, None] * factor, angles.sin()[:, None] * factor
    a, b, rest = x[..., :n], x[..., n:2 * n], x[..., 2 * n:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(c, l, x, angles, factor):
    n = x.shape[0]
    q, k = x @ l["q"].T + l.get("q_b", 0), x @ l["k"].T + l.get("k_b", 0)
    if c.qk_norm == "row":
        q, k = rms(q, l["q_norm"], c.eps), rms(k, l["k_norm"], c.eps)
    q, k = q.reshape(n, c.n_head, c.head_dim), k.reshape(n, c.n_kv, c.head_dim)
    v = (x @ l["v"].T + l.get("v_b", 0)).reshape(n, c.n_kv, c.head_dim)
    if c.qk_norm == "head":
        q, k = rms(q, l["q_norm"], c.eps), rms(k, l["k_norm"], c.eps)
    q, k = rotate(q, angles, factor), rotate(k, angles, factor)
    passed = torch.arange(n)[:, None, None] // max(c.n_orig, 1)  # the original context, so often
    q = q * (1 + c.growth * torch.log(1 + passed.double()))
    k = k.repeat_interleave(c.n_head // c.n_kv, 1)
    v = v.repeat_interleave(c.n_head // c.n_kv, 1)
    logits = torch.einsum("qhd,khd->hqk", q, k) * (c.attention or 1 / math.sqrt(c.head_dim))
    logits += torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)
    out = torch.einsum("hqk,khd->qhd", logits.softmax(-1), v).reshape(n, -1)
    return out @ l["o"].T + l.get("o_b", 0)


def feed_forward(l, x):
    gate, up = x @ l["gate"].T + l.get("gate_b", 0), x @ l["up"].T + l.get("up_b", 0)
    return (torch.nn.functional.silu(gate) * up) @ l["down"].T + l.get("down_b", 0)


def route(x, l, logits):
    """Weights [n] of a token's experts, 0 for those that it does not use."""
    s = logits.sigmoid() if x.get("sigmoid") else logits.softmax(0)
    worth = s + l.get("choice_b", 0)
    if x.get("groups"):
        groups = worth.reshape(x["groups"], -1)
        best = groups.topk(2).values.sum(1).topk(x["groups_used"]).indices
        closed = torch.full_like(groups, -math.inf)
        closed[best] = groups[best]
        worth = closed.flatten()
    chosen = worth.topk(x["used"]).indices
    out = torch.zeros_like(s)
    out[chosen] = s[chosen] / (s[chosen].sum() if x.get("normalized") else 1)
    return out * x.get("scale", 1.0)


def expert_feed_forward(c, l, h):
    """All experts of all tokens, then a sum with weights that are mostly 0."""
    x = c.experts
    if "router" not in l:
        return feed_forward(l, h)
    weight = torch.stack([route(x, l, logits) for logits in h @ l["router"].T])
    gate = torch.einsum("td,efd->tef", h, l["gate_exps"])
    up = torch.einsum("td,efd->tef", h, l["up_exps"])
    y = torch.einsum("tef,edf->ted", torch.nn.functional.silu(gate) * up, l["down_exps"])
    out = torch.einsum("te,ted->td", weight, y)
    if "gate" in l:
        s = torch.sigmoid(h @ l["shared_gate"])[:, None] if "shared_gate" in l else 1
        out = out + s * feed_forward(l, h)
    return out


def layer(c, l, x, turn=1, long=False):
    freq, factor = frequencies(c, long)
    angles = torch.arange(len(x), dtype=torch.float64)[:, None] * freq * turn

    def norm(x, name):
        return rms(x, l[name], c.eps) if name in l else x

    added = attention(c, l, norm(x, "attn_norm"), angles, factor)
    x = x + c.scales[1] * norm(added, "post_attention_norm")
    return x + c.scales[1] * norm(expert_feed_forward(c, l, norm(x, "ffn_norm")), "post_ffw_norm")


def hidden(c, w, ids, long=False):
    x = w["embed"][ids] * c.scales[0]
    for i, l in enumerate(w["layers"]):
        x = layer(c, l, x, 1 if not c.no_rope or (i + 1) % c.no_rope else 0, long)
    return rms(x, w["norm"], c.eps)


def run(c, w, ids, long=False):
    return hidden(c, w, ids, long) @ w["output"].T / c.scales[2]


def mtp(ids, h, combine, layer, head):
    """Logits of the MTP layer after each token of POSITIONS but the first, and after one more token.
    combine(ids, h): what the layer reads of tokens and the rows h before them; head(x): a row h of
    the layer's, and its logits."""
    x, rows = combine(ids[1:], h[:-1]), []
    h, first = head(layer(x))
    for p in POSITIONS[1:]:
        after = combine(ids[[(p + 1) % N_TOKENS]], h[[p - 1]])
        rows += [first[p - 1], head(layer(torch.cat([x[:p], after]))[-1])[1]]
    return torch.stack(rows)


def make_mtp(c, w, d, ids):
    at, n = f"blk.{c.n_layer}.nextn.", c.n_embd
    enorm, hnorm, norm = (d.draw(f"{at}{name}.weight", "F32", (n,), 0.1, 1)
                          for name in ("enorm", "hnorm", "shared_head_norm"))
    project = d.draw(at + "eh_proj.weight", c.store, (n, 2 * n), 1 / math.sqrt(n))
    embed, output = (d.draw(f"{at}{name}.weight", c.store, (N_VOCAB, n), 1 / math.sqrt(n))
                     for name in ("embed_tokens", "shared_head_head"))
    l = Layer(c, d, c.n_layer).all(c.n_layer)

    def combine(ids, h):
        return torch.cat([rms(embed[ids], enorm, c.eps), rms(h, hnorm, c.eps)], 1) @ project.T

    def head(x):
        h = rms(x, norm, c.eps)
        return h, h @ output.T

    return mtp(ids, hidden(c, w, ids), combine, lambda x: layer(c, l, x), head)


# ---- files -------------------------------------------------------------------------------------

def metadata(c, name):
    a = c.arch
    m = {"general.architecture": a, "general.name": name, "general.alignment": 32,
         f"{a}.context_length": c.n_ctx, f"{a}.embedding_length": c.n_embd,
         f"{a}.block_count": c.n_layer + c.write.get("nextn_predict_layers", 0), f"{a}.feed_forward_length": c.n_ff,
         f"{a}.attention.head_count": c.n_head, f"{a}.attention.head_count_kv": c.n_kv,
         f"{a}.attention.layer_norm_rms_epsilon": c.eps, f"{a}.rope.freq_base": c.base,
         f"{a}.rope.dimension_count": c.n_rot}
    if c.head_dim * c.n_head != c.n_embd:
        m |= {f"{a}.attention.key_length": c.head_dim, f"{a}.attention.value_length": c.head_dim}
    x = c.experts
    keys = {"n": "count", "used": "used_count", "ff": "feed_forward_length", "scale": "weights_scale",
            "groups": "group_count", "groups_used": "group_used_count"}
    m |= {f"{a}.expert_{key}": x[k] for k, key in keys.items() if k in x}
    if x.get("shared"):
        m[f"{a}.expert_shared_feed_forward_length"] = x["shared"]
    if x.get("sigmoid"):
        m |= {f"{a}.expert_gating_func": 2, f"{a}.expert_weights_norm": x["normalized"]}
    if x.get("dense"):
        m[f"{a}.leading_dense_block_count"] = x["dense"]
    if c.n_orig:
        m[f"{a}.rope.scaling.original_context_length"] = c.n_orig
    m |= {f"{a}.{k}": v for k, v in c.write.items()}
    return m


def constants(c):
    """Factors of RoPE, which files have as tensors: lines of a recipe."""
    s, out = c.scaling, {}
    if s.get("kind") == "longrope":
        out = {"rope_factors_long": s["long"], "rope_factors_short": s["short"]}
    if s.get("as_tensor"):
        plain = frequencies(Config(c.arch, head_dim=c.head_dim, base=c.base), False)[0]
        out = {"rope_freqs": plain / frequencies(c, False)[0]}
    for name, x in out.items():
        yield f"tensor {name}.weight F32 {len(x)}"
        yield "list " + " ".join(str(v) for v in x.float().numpy())


def golden_ids():
    return torch.randint(3, N_VOCAB, (N_TOKENS,), generator=torch.Generator().manual_seed(0))


def write_golden(path, ids, logits):
    """The rows of POSITIONS as float32, of every sixth token of the vocabulary. Next to them, in the
    file ids, as int32: the tokens and the positions, which are the same for all models."""
    rows = logits[POSITIONS, ::6].float().contiguous()
    path.write_bytes(rows.numpy().tobytes())
    head = [*ids.tolist(), *POSITIONS]
    path.with_name("ids").write_bytes(struct.pack(f"<{len(head)}i", *head))
    return rows


def write_mtp(path, rows):
    path.write_bytes(rows[:, ::6].float().contiguous().numpy().tobytes())
    print(f"{path.name}: standard deviation {rows.std():.2f}")


def greedy(c, w, ids, n=32):
    """The likeliest tokens behind ids, all experts of all tokens computed again for each."""
    ids = ids.clone()
    for _ in range(n):
        logits = run(c, w, ids)[-1]
        first, second = logits.topk(2).values
        assert first - second > 1e-4  # rounding must not decide
        ids = torch.cat([ids, logits.argmax()[None]])
    return ids.tolist()


# ---- the models --------------------------------------------------------------------------------

SMALL = dict(n_embd=32, n_head=2, n_kv=1, n_ff=64, pairs=True)


def steps(first, last, n):
    return (first * (last / first) ** torch.linspace(0, 1, n)).float()


def models():
    """name, configuration, [golden, whether the conversation is long]."""
    yield "llama", Config("llama", n_head=4, tied=False, pairs=True, qkv_bias=True,
                          other_bias=True, base=500000.0), [("llama", False)]
    yield "llama-linear", Config(
        "llama", store="F32", scaling={"kind": "linear", "factor": 4.0},
        write={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
        **SMALL), [("llama-linear", False)]
    llama3 = {"kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0}
    yield "llama3", Config("llama", n_orig=96, scaling=llama3 | {"as_tensor": True},
                           **SMALL), [("llama3", False)]
    yield "llama3-metadata", Config(
        "llama", n_orig=96, scaling=llama3,
        write={"rope.scaling.type": "llama3", "rope.scaling.factor": 8.0,
               "rope.scaling.low_freq_factor": 1.0, "rope.scaling.high_freq_factor": 4.0},
        **SMALL), [("llama3", False)]
    yield "llama-yarn", Config(
        "llama", n_orig=128, scaling={"kind": "yarn", "factor": 4.0},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0},
        **SMALL), [("llama-yarn", False)]
    yield "llama-yarn-own", Config(
        "llama", n_orig=128, scaling={"kind": "yarn", "factor": 4.0, "attention_factor": 1.3},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.yarn_attn_factor": 1.3},
        **SMALL), [("llama-yarn-own", False)]
    factor = math.sqrt(1 + math.log(1280 / 320) / math.log(320))
    yield "phi3", Config(
        "phi3", store="Q8_0", n_embd=96, n_head=2, n_kv=1, head_dim=96, fused="qkv ffn", tied=False,
        n_orig=320, n_ctx=1280, write={"rope.scaling.attn_factor": factor},
        scaling={"kind": "longrope", "short": steps(1, 1.3, 48), "long": steps(1.1, 6, 48)},
        ), [("phi3-short", False), ("phi3-long", True)]
    yield "phi3-partial", Config(
        "phi3", n_layer=1, n_embd=64, n_head=2, n_kv=1, head_dim=64, n_rot=48, n_ff=64,
        fused="qkv ffn", n_orig=320, n_ctx=1280, write={"rope.scaling.type": "longrope"},
        scaling={"kind": "longrope", "short": steps(1, 1.2, 24), "long": steps(1.2, 5, 24)},
        ), [("phi3-partial-short", False), ("phi3-partial-long", True)]
    yield "qwen2", Config("qwen2", n_layer=3, n_embd=32, n_head=2, n_kv=1, qkv_bias=True, eps=1e-6,
                          base=1000000.0, write={"attention.sliding_window": 100}), [("qwen2", False)]
    yield "qwen3", Config("qwen3", qk_norm="head", eps=1e-6, base=1000000.0), [("qwen3", False)]
    scales = (12.0, 0.7 / math.sqrt(2), 2.0)
    yield "minicpm", Config(
        "minicpm", n_embd=32, n_head=2, n_kv=1, pairs=True, scales=scales,
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)),
        ), [("minicpm", False)]
    small = dict(store="Q8_0", n_embd=32, n_head=2, head_dim=64)
    scales = (6.0, 0.22, 4.0)
    yield "granite", Config(
        "granite", n_kv=1, pairs=True, scales=scales, attention=0.11, base=10000000.0,
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)) |
        {"attention.scale": 0.11}, **small), [("granite", False)]
    yield "olmo2", Config(
        "olmo2", tied=False, norms="after", qk_norm="row", eps=1e-6, base=500000.0,
        write={"attention.sliding_window": 0}, **small), [("olmo2", False)]
    yield "smollm3", Config("smollm3", n_layer=4, n_kv=1, pairs=True, no_rope=4, base=5000000.0,
                            **small), [("smollm3", False)]
    yield "mistral3", Config(
        "mistral3", n_kv=1, pairs=True, n_orig=32, base=1000000.0, tied=False, growth=0.3,
        scaling={"kind": "yarn", "factor": 4.0, "all_dims": 1.0},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.3},
        **small), [("mistral3", False)]
    yield "ernie4_5", Config("ernie4_5", n_kv=1, pairs=True, base=500000.0,
                             **small), [("ernie4_5", False)]
    yield "seed_oss", Config("seed_oss", n_kv=1, tied=False, qkv_bias=True, eps=1e-6,
                             base=10000000.0, ffn_norm="post_attention_norm",
                             **small), [("seed_oss", False)]
    mixture = dict(n=6, used=3, ff=32)
    halves = dict(n_embd=32, n_head=2)  # of which make_folders.py writes folders
    yield "mixtral", Config("llama", n_layer=1, n_kv=1, pairs=True, n_ff=32, tied=False,
                            experts=dict(mixture, used=2, normalized=True),
                            **small), [("mixtral", False)]
    yield "qwen2moe", Config(
        "qwen2moe", n_layer=1, n_kv=1, qkv_bias=True, ffn_norm="post_attention_norm", eps=1e-6,
        experts=dict(mixture, shared=64, shared_gate=True), **small), [("qwen2moe", False)]
    yield "qwen3moe", Config("qwen3moe", n_kv=1, qk_norm="head", eps=1e-6, base=1000000.0,
                             experts=dict(mixture, n=9, used=4, normalized=True),
                             **small), [("qwen3moe", False)]
    yield "nvfp4", Config(
        "qwen3moe", store="NVFP4", kinds={"token_embd": "F16"}, n_layer=1, n_embd=64, n_head=2, n_kv=1, head_dim=64,
        qk_norm="head", eps=1e-6, experts=dict(n=4, used=2, ff=64, normalized=True)), [("nvfp4", False)]
    yield "olmoe", Config("olmoe", n_layer=1, qk_norm="row", experts=mixture,
                          **small), [("olmoe", False)]
    yield "glm4moe", Config(
        "glm4moe", n_kv=1, n_rot=16, qkv_bias=True, qk_norm="head", n_ff=64,
        ffn_norm="post_attention_norm", experts=dict(
            n=8, used=3, ff=16, dense=1, shared=32, sigmoid=True, normalized=True, scale=1.7,
            choice_bias=True, groups=4, groups_used=2), write={"nextn_predict_layers": 1},
        **halves), [("glm4moe", False)]
    yield "dots1", Config(
        "dots1", n_kv=1, qk_norm="head", n_ff=64, tied=False, eps=1e-6, experts=dict(
            n=6, used=2, ff=16, dense=1, shared=32, sigmoid=True, normalized=True, scale=2.5,
            choice_bias=True), **halves), [("dots1", False)]
    scales = (6.0, 0.22, 4.0)
    yield "granitemoe", Config(
        "granitemoe", n_layer=1, n_kv=1, pairs=True, n_ff=32, scales=scales, attention=0.11,
        experts=dict(mixture, normalized=True, shared=64),
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)) |
        {"attention.scale": 0.11}, **halves), [("granitemoe", False)]
    yield "glm4", Config("glm4", n_kv=1, n_rot=32, pairs=True, tied=False, qkv_bias=True,
                         norms="both", fused="ffn", **small), [("glm4", False)]


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "families"
    folder.mkdir(exist_ok=True)
    ids = golden_ids()
    answers = []
    for name, c, goldens in models():
        w, d = make_weights(c)
        if c.experts:
            answers.append(f"{name} {' '.join(map(str, greedy(c, w, ids[:8])))}")
        if "nextn_predict_layers" in c.write:
            write_mtp(folder / f"{name}.mtp", make_mtp(c, w, d, ids))
        write_recipe(folder / f"{name}.model", metadata(c, name), [*d.tensors(), *constants(c)])
        for golden, long in goldens:
            rows = write_golden(folder / f"{golden}.logits", ids, run(c, w, ids, long))
            print(f"{golden}: standard deviation of logits {rows.std():.2f}")
    (folder.parent / "greedy.txt").write_text("\n".join(answers) + "\n")


if __name__ == "__main__":
    main()
