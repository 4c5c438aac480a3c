#!/usr/bin/env python3
"""Writes families/: a tiny random model of every family and the logits it must give; greedy.txt: what
models with experts answer.

A separate implementation in double precision, from the papers and the models' published
definitions; it shares nothing with the C code. Weights are drawn in the order of rows that
checkpoints use and put into GGUF's when written. Needs PyTorch; every seed is fixed.

    tests/golden/make_families.py        takes seconds, overwrites tests/golden/families
"""
import math
import struct
from dataclasses import dataclass, field
from pathlib import Path

import torch

N_VOCAB, N_TOKENS = 300, 300
POSITIONS = [0, 1, 2, 6, 7, 63, 64, 126, 127, 128, 129, 200, 255, 256, 298, 299]


@dataclass
class Config:
    arch: str
    seed: int
    store: str = "F16"  # type of matrices in the file
    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    n_kv: int = 2
    head_dim: int = 32
    n_rot: int = 0  # 0 = head_dim
    n_ff: int = 96
    tied: bool = True
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


# ---- blocks -----------------------------------------------------------------------------------

def quantize_q8_0(x):
    """Values that Q8_0 can hold, and their bytes."""
    g = x.reshape(-1, 32)
    d = (g.abs().amax(1) / 127).half()
    inv = torch.where(d > 0, 1 / d.double(), torch.zeros_like(d, dtype=torch.float64))
    q = torch.round(g.double() * inv[:, None]).clamp(-127, 127).to(torch.int8)
    raw = b"".join(dd.numpy().tobytes() + qq.numpy().tobytes() for dd, qq in zip(d, q))
    return (d.double()[:, None] * q.double()).reshape(x.shape), raw


def quantize_nvfp4(x):
    """4-bit floats with an e4m3 scale for each 16, and a factor of the matrix, which GGUF has apart:
    `.nvfp4` has the bytes and the factor."""
    values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    scales = torch.tensor([m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0**(e - 7)
                           for e in range(16) for m in range(8)][:127], dtype=torch.float64)
    g = x.reshape(-1, 4, 16)
    factor = (g.abs().max() / 6 / 448).float().double()
    bits = (g.abs().amax(2) / 6 / factor)[..., None].sub(scales).abs().argmin(2)
    d = scales[bits][..., None] * factor
    code = (g / d.clamp(min=1e-30)).abs()[..., None].sub(values).abs().argmin(3)
    out = (values[code] * d * g.sign()).reshape(x.shape)
    code = code + 8 * (g < 0)
    nibbles = code[..., :8] + 16 * code[..., 8:]
    raw = torch.cat([bits, nibbles.flatten(1)], 1).to(torch.uint8)
    out.nvfp4 = (raw.numpy().tobytes(), [factor.item()])
    return out


def stack(matrices):
    out = torch.stack(matrices)
    if hasattr(matrices[0], "nvfp4"):
        out.nvfp4 = (b"".join(x.nvfp4[0] for x in matrices), [x.nvfp4[1][0] for x in matrices])
    return out


def stored(x, kind):
    """x as the file will hold it, in double precision."""
    if kind == "NVFP4":
        return quantize_nvfp4(x)
    if kind == "F32":
        return x.float().double()
    if kind == "F16":
        return x.half().double()
    return quantize_q8_0(x)[0]


def to_bytes(x, kind):
    if kind == "NVFP4":
        return x.nvfp4[0]
    if kind == "F32":
        return x.float().numpy().tobytes()
    if kind == "F16":
        return x.half().numpy().tobytes()
    return quantize_q8_0(x)[1]


# ---- weights, in the order of checkpoints ------------------------------------------------------

EMBEDDING = {"NVFP4": "F16"}  # of the embedding and routers, where it is another type
NORMS = {"before": ("attn_norm", "ffn_norm"), "after": ("post_attention_norm", "post_ffw_norm")}
NORMS["both"] = NORMS["before"] + NORMS["after"]


def make_experts(c, i, matrix, vector):
    """Weights of layer i's experts, stacked, and of the shared ones, a dense feed-forward."""
    x = c.experts
    if i < x.get("dense", 0):
        return {}
    n, ff, shared = x["n"], x["ff"], x.get("shared", 0)
    l = {"router": matrix(n, c.n_embd, 2.0, EMBEDDING.get(c.store))}
    for name, n_out, n_in, gain in (("gate", ff, c.n_embd, 1.5), ("up", ff, c.n_embd, 1.0),
                                    ("down", c.n_embd, ff, 1.0)):
        l[name + "_exps"] = stack([matrix(n_out, n_in, gain) for _ in range(n)])
        if x.get("biases"):
            l[name + "_exps_b"] = vector(n * n_out, 0, 0.3).reshape(n, n_out)
    if x.get("biases"):
        l["router_b"] = vector(n, 0, 0.5)
    if x.get("choice_bias"):
        l["choice_b"] = vector(n, 0, 0.3)
    if shared:
        l |= {"gate": matrix(shared, c.n_embd, 1.5), "up": matrix(shared, c.n_embd),
              "down": matrix(c.n_embd, shared)}
    if x.get("shared_gate"):
        l["shared_gate"] = vector(c.n_embd, 0, 0.3)
    return l


def make_weights(c):
    rng = torch.Generator().manual_seed(c.seed)

    def matrix(n_out, n_in, gain=1.0, kind=None):
        x = torch.randn(n_out, n_in, generator=rng, dtype=torch.float64) * gain / math.sqrt(n_in)
        return stored(x, kind or c.store)

    def vector(n, mean, std):
        x = mean + std * torch.randn(n, generator=rng, dtype=torch.float64)
        return x.float().double()

    nq, nkv = c.n_head * c.head_dim, c.n_kv * c.head_dim
    w = {"embed": matrix(N_VOCAB, c.n_embd, kind=EMBEDDING.get(c.store)), "norm": vector(c.n_embd, 1, 0.1), "layers": []}
    w["output"] = w["embed"] if c.tied else matrix(N_VOCAB, c.n_embd)
    for i in range(c.n_layer):
        l = {name: vector(c.n_embd, 1, 0.1) for name in NORMS[c.norms]}
        l |= {"q": matrix(nq, c.n_embd, 1.3), "k": matrix(nkv, c.n_embd, 1.3),
              "v": matrix(nkv, c.n_embd), "o": matrix(c.n_embd, nq),
              "gate": matrix(c.n_ff, c.n_embd, 1.5), "up": matrix(c.n_ff, c.n_embd),
              "down": matrix(c.n_embd, c.n_ff)}
        if c.experts and i >= c.experts.get("dense", 0):
            for name in ("gate", "up", "down"):
                del l[name]
            l |= make_experts(c, i, matrix, vector)
        if c.qkv_bias:
            l |= {"q_b": vector(nq, 0, 0.5), "k_b": vector(nkv, 0, 0.5), "v_b": vector(nkv, 0, 0.5)}
        if c.other_bias:
            l |= {"o_b": vector(c.n_embd, 0, 0.3), "gate_b": vector(c.n_ff, 0, 0.3),
                  "up_b": vector(c.n_ff, 0, 0.3), "down_b": vector(c.n_embd, 0, 0.3)}
        if c.qk_norm:
            n = (c.head_dim, c.head_dim) if c.qk_norm == "head" else (nq, nkv)
            l |= {"q_norm": vector(n[0], 1.2, 0.2), "k_norm": vector(n[1], 1.2, 0.2)}
        w["layers"].append(l)
    return w


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


def clamped_swiglu(gate, up):
    gate, up = gate.clamp(max=7), up.clamp(-7, 7)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1)


def expert_feed_forward(c, l, h):
    """All experts of all tokens, then a sum with weights that are mostly 0."""
    x = c.experts
    if "router" not in l:
        return feed_forward(l, h)
    weight = torch.stack([route(x, l, logits) for logits in h @ l["router"].T + l.get("router_b", 0)])
    gate = torch.einsum("td,efd->tef", h, l["gate_exps"]) + l.get("gate_exps_b", 0)
    up = torch.einsum("td,efd->tef", h, l["up_exps"]) + l.get("up_exps_b", 0)
    g = clamped_swiglu(gate, up) if x.get("clamped") else torch.nn.functional.silu(gate) * up
    y = torch.einsum("tef,edf->ted", g, l["down_exps"]) + l.get("down_exps_b", 0)
    out = torch.einsum("te,ted->td", weight, y)
    if "gate" in l:
        s = torch.sigmoid(h @ l["shared_gate"])[:, None] if "shared_gate" in l else 1
        out = out + s * feed_forward(l, h)
    return out


def run(c, w, ids, long=False):
    freq, factor = frequencies(c, long)
    angles = torch.arange(len(ids), dtype=torch.float64)[:, None] * freq
    embed, residual, divisor = c.scales
    x = w["embed"][ids] * embed
    rotated = angles
    for i, l in enumerate(w["layers"]):
        angles = rotated if not c.no_rope or (i + 1) % c.no_rope else 0 * rotated

        def norm(x, name):
            return rms(x, l[name], c.eps) if name in l else x

        added = attention(c, l, norm(x, "attn_norm"), angles, factor)
        x = x + residual * norm(added, "post_attention_norm")
        x = x + residual * norm(expert_feed_forward(c, l, norm(x, "ffn_norm")),
                                "post_ffw_norm")
    return rms(x, w["norm"], c.eps) @ w["output"].T / divisor


# ---- GGUF --------------------------------------------------------------------------------------

TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "NVFP4": (40, 64, 36)}


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    kind = {str: 8, float: 6, int: 5, bool: 7}[type(v[0])]
    out = struct.pack("<IIQ", 9, kind, len(v))
    if kind == 8:
        return out + b"".join(text(s) for s in v)
    return out + struct.pack(f"<{len(v)}" + {5: "i", 6: "f", 7: "?"}[kind], *v)


def write_gguf(path, meta, tensors):
    infos, data = b"", b""
    for name, (x, kind) in tensors.items():
        dims = tuple(reversed(x.shape))
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0],
                                          len(data))
        data += to_bytes(x, kind)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    head += b"".join(text(k) + value(v) for k, v in meta.items()) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def vocabulary():
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    letters = "abcdefghijklmnopqrstuvwxyz"
    words += ["\u2581"] + list(letters) + ["\u2581" + s for s in letters[:13]]
    words += ["<|endoftext|>"]  # llama.cpp requires it in a phi3 file
    kinds += [1] * 40 + [3]
    assert len(words) == len(kinds) == N_VOCAB
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words,
            "tokenizer.ggml.scores": [-float(i) for i in range(N_VOCAB)],
            "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}


def metadata(c, name):
    a = c.arch
    m = {"general.architecture": a, "general.name": name, "general.alignment": 32,
         f"{a}.context_length": c.n_ctx, f"{a}.embedding_length": c.n_embd,
         f"{a}.block_count": c.n_layer, f"{a}.feed_forward_length": c.n_ff,
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
    return m | vocabulary()


def side_by_side(x, n_head, n_rot):
    """The rotated rows of heads, from i with i + n_rot / 2 to 2i with 2i + 1."""
    rest = x.shape[1:]
    heads = x.reshape(n_head, -1, *rest)
    pairs = heads[:, :n_rot].reshape(n_head, 2, -1, *rest).transpose(1, 2)
    return torch.cat([pairs.reshape(n_head, n_rot, *rest), heads[:, n_rot:]], 1).reshape(x.shape)


def tensors_of(c, w):
    out = {"token_embd.weight": (w["embed"], EMBEDDING.get(c.store, c.store)), "output_norm.weight": (w["norm"], "F32")}
    if not c.tied:
        out["output.weight"] = (w["output"], c.store)
    names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate",
             "up": "ffn_up", "down": "ffn_down"}
    for i, source in enumerate(w["layers"]):
        l = dict(source)
        for key, n in (("q", c.n_head), ("k", c.n_kv)) if c.pairs else ():
            for k in (key, key + "_b"):
                if k in l:
                    l[k] = side_by_side(l[k], n, c.n_rot)
        if "qkv" in c.fused:
            l["qkv"] = torch.cat([l.pop("q"), l.pop("k"), l.pop("v")])
        if "ffn" in c.fused:
            l["up"] = torch.cat([l.pop("gate"), l["up"]])
        for key in NORMS[c.norms]:
            name = c.ffn_norm if key == "ffn_norm" else key
            out[f"blk.{i}.{name}.weight"] = (l[key], "F32")
        for key in ("q_norm", "k_norm") if c.qk_norm else ():
            out[f"blk.{i}.attn_{key}.weight"] = (l[key], "F32")
        part = names | {"qkv": "attn_qkv"}
        if "router" in l:
            part |= {k: names[k] + "_shexp" for k in ("gate", "up", "down")}
            part |= {k + "_exps": names[k] + "_exps" for k in ("gate", "up", "down")}
            out[f"blk.{i}.ffn_gate_inp.weight"] = (l["router"], "F32")
        for key, name in (("router_b", "ffn_gate_inp.bias"), ("choice_b", "exp_probs_b.bias"),
                          ("shared_gate", "ffn_gate_inp_shexp.weight")):
            if key in l:
                out[f"blk.{i}.{name}"] = (l[key], "F32")
        for key, name in part.items():
            if key in l:
                out[f"blk.{i}.{name}.weight"] = (l[key], c.store)
            if hasattr(l.get(key), "nvfp4"):
                out[f"blk.{i}.{name}.scale"] = (torch.tensor(l[key].nvfp4[1]), "F32")
            if key + "_b" in l:
                out[f"blk.{i}.{name}.bias"] = (l[key + "_b"], "F32")
    s = c.scaling
    if s.get("kind") == "longrope":
        out["rope_factors_long.weight"] = (s["long"], "F32")
        out["rope_factors_short.weight"] = (s["short"], "F32")
    if s.get("as_tensor"):
        plain = frequencies(Config(c.arch, 0, head_dim=c.head_dim, base=c.base), False)[0]
        out["rope_freqs.weight"] = (plain / frequencies(c, False)[0], "F32")
    return out


def write_golden(path, ids, logits):
    """int32: tokens, rows, numbers of a row; ids; positions of the rows; then the rows as float32:
    of every third token of the vocabulary."""
    rows = logits[POSITIONS, ::3].float().contiguous()
    head = [N_TOKENS, *rows.shape, *ids.tolist(), *POSITIONS]
    path.write_bytes(struct.pack(f"<{len(head)}i", *head) + rows.numpy().tobytes())
    return rows


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
    yield "llama", Config("llama", 1, n_head=4, tied=False, pairs=True, qkv_bias=True,
                          other_bias=True, base=500000.0), [("llama", False)]
    yield "llama-linear", Config(
        "llama", 2, store="F32", scaling={"kind": "linear", "factor": 4.0},
        write={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
        **SMALL), [("llama-linear", False)]
    llama3 = {"kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0}
    yield "llama3", Config("llama", 3, n_orig=96, scaling=llama3 | {"as_tensor": True},
                           **SMALL), [("llama3", False)]
    yield "llama3-metadata", Config(
        "llama", 3, n_orig=96, scaling=llama3,
        write={"rope.scaling.type": "llama3", "rope.scaling.factor": 8.0,
               "rope.scaling.low_freq_factor": 1.0, "rope.scaling.high_freq_factor": 4.0},
        **SMALL), [("llama3", False)]
    yield "llama-yarn", Config(
        "llama", 4, n_orig=128, scaling={"kind": "yarn", "factor": 4.0},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0},
        **SMALL), [("llama-yarn", False)]
    yield "llama-yarn-own", Config(
        "llama", 4, n_orig=128, scaling={"kind": "yarn", "factor": 4.0, "attention_factor": 1.3},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.yarn_attn_factor": 1.3},
        **SMALL), [("llama-yarn-own", False)]
    factor = math.sqrt(1 + math.log(1280 / 320) / math.log(320))
    yield "phi3", Config(
        "phi3", 5, store="Q8_0", n_embd=96, n_head=2, n_kv=1, head_dim=96, fused="qkv ffn", tied=False,
        n_orig=320, n_ctx=1280, write={"rope.scaling.attn_factor": factor},
        scaling={"kind": "longrope", "short": steps(1, 1.3, 48), "long": steps(1.1, 6, 48)},
        ), [("phi3-short", False), ("phi3-long", True)]
    yield "phi3-partial", Config(
        "phi3", 6, n_layer=1, n_embd=64, n_head=2, n_kv=1, head_dim=64, n_rot=48, n_ff=64,
        fused="qkv ffn", n_orig=320, n_ctx=1280, write={"rope.scaling.type": "longrope"},
        scaling={"kind": "longrope", "short": steps(1, 1.2, 24), "long": steps(1.2, 5, 24)},
        ), [("phi3-partial-short", False), ("phi3-partial-long", True)]
    yield "qwen2", Config("qwen2", 7, n_layer=3, n_embd=32, n_head=2, n_kv=1, qkv_bias=True, eps=1e-6,
                          base=1000000.0, write={"attention.sliding_window": 100}), [("qwen2", False)]
    yield "qwen3", Config("qwen3", 8, qk_norm="head", eps=1e-6, base=1000000.0), [("qwen3", False)]
    scales = (12.0, 0.7 / math.sqrt(2), 2.0)
    yield "minicpm", Config(
        "minicpm", 9, n_embd=32, n_head=2, n_kv=1, pairs=True, scales=scales,
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)),
        ), [("minicpm", False)]
    small = dict(store="Q8_0", n_embd=32, n_head=2, head_dim=64)
    scales = (6.0, 0.22, 4.0)
    yield "granite", Config(
        "granite", 10, n_kv=1, pairs=True, scales=scales, attention=0.11, base=10000000.0,
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)) |
        {"attention.scale": 0.11}, **small), [("granite", False)]
    yield "olmo2", Config(
        "olmo2", 11, tied=False, norms="after", qk_norm="row", eps=1e-6, base=500000.0,
        write={"attention.sliding_window": 0}, **small), [("olmo2", False)]
    yield "smollm3", Config("smollm3", 12, n_layer=4, n_kv=1, pairs=True, no_rope=4, base=5000000.0,
                            **small), [("smollm3", False)]
    yield "mistral3", Config(
        "mistral3", 13, n_kv=1, pairs=True, n_orig=32, base=1000000.0, tied=False, growth=0.3,
        scaling={"kind": "yarn", "factor": 4.0, "all_dims": 1.0},
        write={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.3},
        **small), [("mistral3", False)]
    yield "ernie4_5", Config("ernie4_5", 14, n_kv=1, pairs=True, base=500000.0,
                             **small), [("ernie4_5", False)]
    yield "seed_oss", Config("seed_oss", 15, n_kv=1, tied=False, qkv_bias=True, eps=1e-6,
                             base=10000000.0, ffn_norm="post_attention_norm",
                             **small), [("seed_oss", False)]
    mixture = dict(n=6, used=3, ff=32)
    halves = dict(n_embd=32, n_head=2)  # of which make_folders.py writes folders
    yield "mixtral", Config("llama", 17, n_layer=1, n_kv=1, pairs=True, n_ff=32, tied=False,
                            experts=dict(mixture, used=2, normalized=True),
                            **small), [("mixtral", False)]
    yield "qwen2moe", Config(
        "qwen2moe", 18, n_layer=1, n_kv=1, qkv_bias=True, ffn_norm="post_attention_norm", eps=1e-6,
        experts=dict(mixture, shared=64, shared_gate=True), **small), [("qwen2moe", False)]
    yield "qwen3moe", Config("qwen3moe", 19, n_kv=1, qk_norm="head", eps=1e-6, base=1000000.0,
                             experts=dict(mixture, n=9, used=4, normalized=True),
                             **small), [("qwen3moe", False)]
    yield "nvfp4", Config(
        "qwen3moe", 24, store="NVFP4", n_layer=1, n_embd=64, n_head=2, n_kv=1, head_dim=64,
        qk_norm="head", eps=1e-6, experts=dict(n=4, used=2, ff=64, normalized=True)), [("nvfp4", False)]
    yield "olmoe", Config("olmoe", 20, n_layer=1, qk_norm="row", experts=mixture,
                          **small), [("olmoe", False)]
    yield "glm4moe", Config(
        "glm4moe", 22, n_kv=1, n_rot=16, qkv_bias=True, qk_norm="head", n_ff=64,
        ffn_norm="post_attention_norm", experts=dict(
            n=8, used=3, ff=16, dense=1, shared=32, sigmoid=True, normalized=True, scale=1.7,
            choice_bias=True, groups=4, groups_used=2), **halves), [("glm4moe", False)]
    yield "dots1", Config(
        "dots1", 23, n_kv=1, qk_norm="head", n_ff=64, tied=False, eps=1e-6, experts=dict(
            n=6, used=2, ff=16, dense=1, shared=32, sigmoid=True, normalized=True, scale=2.5,
            choice_bias=True), **halves), [("dots1", False)]
    scales = (6.0, 0.22, 4.0)
    yield "granitemoe", Config(
        "granitemoe", 21, n_layer=1, n_kv=1, pairs=True, n_ff=32, scales=scales, attention=0.11,
        experts=dict(mixture, normalized=True, shared=64),
        write=dict(zip(("embedding_scale", "residual_scale", "logit_scale"), scales)) |
        {"attention.scale": 0.11}, **halves), [("granitemoe", False)]
    yield "glm4", Config("glm4", 16, n_kv=1, n_rot=32, pairs=True, tied=False, qkv_bias=True,
                         norms="both", fused="ffn", **small), [("glm4", False)]


def main():
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "families"
    folder.mkdir(exist_ok=True)
    ids = torch.randint(3, N_VOCAB, (N_TOKENS,), generator=torch.Generator().manual_seed(0))
    answers = []
    for name, c, goldens in models():
        w = make_weights(c)
        if c.experts:
            answers.append(f"{name} {' '.join(map(str, greedy(c, w, ids[:8])))}")
        write_gguf(folder / f"{name}.gguf", metadata(c, name), tensors_of(c, w))
        for golden, long in goldens:
            rows = write_golden(folder / f"{golden}.logits", ids, run(c, w, ids, long))
            print(f"{golden}: standard deviation of logits {rows.std():.2f}")
    (folder.parent / "greedy.txt").write_text("\n".join(answers) + "\n")


if __name__ == "__main__":
    main()
