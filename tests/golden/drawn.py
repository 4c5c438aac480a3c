"""The twin of make_models.c: draws the weights of the golden models from a hash of (name, index),
and writes the recipes from which make_models draws them again.

A tensor of a file is what was drawn under its name, or a view of other names: `views` finds it by
running the function that makes the file's tensors on the indices of the drawn numbers.
"""
import math

import gguf
import numpy as np
import torch

SPREAD = 73.9  # standard deviation of odd numbers from -127 to 127
NVFP4_VALUES = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
SCALES = {"Q4_0": [0], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}
KINDS = {"F32": 4, "F16": 2, "-EXP": 4}
MASK = (1 << 64) - 1


def drawn_bytes(name, n):
    h = 0xcbf29ce484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001b3 & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
        return ((z ^ z >> np.uint64(31)) >> np.uint64(56)).astype(np.uint8)


def short(x, bits):
    """The nearest number whose fraction has so few bits."""
    fraction, power = math.frexp(x)
    return math.ldexp(round(fraction * 2**bits), power - bits)


def blocks(name, kind, n, step):
    """The bytes of random blocks and their numbers."""
    if kind == "NVFP4":
        raw = drawn_bytes(name, n // 64 * 36).reshape(-1, 36)
        raw[:, :4] = 56 + raw[:, :4] % 16
        code = raw[:, 4:].reshape(-1, 4, 8)
        code = np.concatenate([code % 16, code // 16], 2)
        return raw, NVFP4_VALUES[code] * (1 + (raw[:, :4, None].astype(int) - 56) % 8 / 8) * 2.0 ** (
            (raw[:, :4, None].astype(int) - 56) // 8)
    t = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[t]
    raw = drawn_bytes(name, n // block * size).reshape(-1, size)
    for at in SCALES[kind]:
        d = step * (16 + raw[:, at].astype(np.float64) % 16) * (7.5 if at == 2 else 1)
        assert (d.astype(np.float16) == d).all(), "no numbers of half precision"
        raw[:, at:at + 2] = d.astype(np.float16)[:, None].view(np.uint8)
    return raw, gguf.dequantize(raw, t)


class Drawn:
    """The drawn tensors of a model: self.values by name, and how each is drawn. `given`: numbers to
    give in place of drawn ones."""

    def __init__(self, given=None):
        self.values, self.how, self.given = {}, {}, given

    def draw(self, name, kind, shape, std, mean=0.0):
        """Numbers of about that mean and deviation, in double precision."""
        if self.given:
            return self.given[name]
        n = math.prod(shape)
        if kind in KINDS:
            step = short(std / SPREAD, 4)
            u = (drawn_bytes(name, n) | 1).view(np.int8).astype(np.float64)
            x = mean + step * u
            assert kind != "F16" or (x == x.astype(np.float16)).all()
            x = x.astype(np.float32).astype(np.float64)
        else:
            step = short(std / blocks(name, kind, n, 1 / 16)[1].std() / 16, 2)
            x = blocks(name, kind, n, step)[1].astype(np.float64)
        self.how[name] = (kind, tuple(shape), float(mean), step)
        self.values[name] = torch.tensor(x).reshape(*shape)
        return -torch.exp(self.values[name]).float().double() if kind == "-EXP" else self.values[name]

    def tensors(self):
        """Of a file that has what was drawn: lines of a recipe."""
        for name, (kind, shape, mean, step) in self.how.items():
            yield tensor_line(name, kind, shape)
            yield f"draw - {number(mean)} {number(step)}"

    def views(self, make):
        """The same for the tensors (numbers, type) that make() makes of a dictionary of drawn ones. It
        runs on the indices of all drawn numbers, on zeros and on ones: that gives the index, the factor
        and the addend of each number in the file."""
        first, passes, n = {}, [], 0
        for name, x in self.values.items():
            first[name] = n
            n += x.numel()
        for scale, shift in ((1, 0), (0, 0), (0, 1)):
            fake = {k: scale * torch.arange(first[k], first[k] + x.numel(), dtype=torch.float64)
                    .reshape(x.shape) + shift for k, x in self.values.items()}
            passes.append(make(fake))
        for name, (ids, kind) in passes[0].items():
            zero, one = (p[name][0].double().flatten().numpy() for p in passes[1:])
            factor, added = one - zero, zero
            yield tensor_line(name, kind, ids.shape)
            if not factor.any():
                yield "list " + " ".join(str(x) for x in added.astype(np.float32))
                continue
            at = ((ids.double().flatten().numpy() - added) / factor).round().astype(np.int64)
            yield from self.pieces(first, at, factor, added)

    def pieces(self, first, at, factor, added):
        """Runs of numbers that are a view of one drawn tensor."""
        names, starts = list(first), np.array(list(first.values()))
        source = np.searchsorted(starts, at, "right") - 1
        change = (np.diff(source) != 0) | (np.diff(factor) != 0) | (np.diff(added) != 0)
        for run in np.split(np.arange(len(at)), np.flatnonzero(change) + 1):
            name, a, b = names[source[run[0]]], factor[run[0]], added[run[0]]
            _, _, mean, step = self.how[name]
            for ids in nested(at[run] - first[name]):
                where = "".join(f" {n} {s}" for n, s in strides(ids) or [(1, 1)])
                whole = where == f" {len(at)} 1" and ids[0] == 0
                where = "" if whole else f" {ids[0]}{where}"
                yield f"draw {name} {number(a * mean + b)} {number(a * step)}{where}"


def strides(ids):
    """[(n, stride)] of nested loops, the outermost first, or None."""
    out = []
    while len(ids) > 1:
        broken = np.flatnonzero(np.diff(ids) != ids[1] - ids[0])
        n = broken[0] + 1 if len(broken) else len(ids)
        if len(ids) % n or (np.diff(ids.reshape(-1, n), axis=1) != ids[1] - ids[0]).any():
            return None
        out.insert(0, (n, ids[1] - ids[0]))
        ids = ids[::n]
    return out


def nested(ids):
    if strides(ids) is not None:
        return [ids]
    half = len(ids) // 2
    return nested(ids[:half]) + nested(ids[half:])


def number(x):
    return repr(float(x)).removesuffix(".0")


def tensor_line(name, kind, shape):
    return f"tensor {name} {kind} {' '.join(map(str, shape))}"


def key_line(key, v, kind=None):
    if isinstance(v, list):
        kind = "bools" if isinstance(v[0], bool) else "i32s"
        return f"{kind} {key} {' '.join(str(int(x)) for x in v)}"
    kind = kind or {bool: "bool", int: "u32", float: "f32", str: "str"}[type(v)]
    return f"{kind} {key} {v if kind == 'str' else number(v)}"


def write_recipe(path, meta, lines, n_vocab=300):
    keys = [key_line(k, v) for k, v in meta.items()] + ([f"vocab {n_vocab}"] if meta else [])
    path.write_text("\n".join(keys + list(lines)) + "\n")
