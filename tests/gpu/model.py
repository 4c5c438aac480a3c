"""Predicted speed of two models with 16,384 units, and of training heads, from counted instructions and bytes.

Instructions are those of kernels/cuda/report.txt (make cuda-report). The shares of issue slots and of memory, and the cycles that a
launch takes besides, are those that an H100 (SXM, 1.98 GHz, driver 580.159.04) took; docs/gpu.md has its tokens and chunks. Every
prediction is a range around them. High: a tenth to a fifth better, memory at 93 % (GeForce) or 88 to 90 % of the datasheet's rate. Low:
about a tenth worse; llama.cpp's Q4_0 decode on an RTX 6000 Ada (76 % of the bandwidth) and SageAttention's 322 TOPS on a 4090 are
inside. Only the H100's numbers are measured. Python 3, no packages.

model.py LOG, the log.txt of run.sh: the same for the device of that run, with its measured ceilings, next to its
measured tokens and chunks.
"""

import re
import sys

# processors, GHz, GB/s, share of them reached, launch gap in us
DEVICES = {
    "RTX 4090": (128, 2.52, 1008, 0.93, 2.2),
    "RTX 5090": (170, 2.41, 1792, 0.93, 2.2),
    "H100": (132, 1.98, 3350, 0.89, 2.2),
    "AGX Orin": (16, 1.30, 204.8, 0.88, 5.0),
    "AGX Thor": (20, 1.57, 273, 0.88, 5.0),
}
# cycles of a matrix instruction: m16n8k32 int8, m16n8k16 with sums of floats and of halves
TENSOR = {"RTX 4090": (16, 32, 16), "RTX 5090": (16, 32, 16), "H100": (4, 4, 4), "AGX Orin": (8, 8, 8), "AGX Thor": (4, 4, 4)}
GEFORCE = ("86", "89", "120")  # half the rate with sums of floats
# shares of the issue slots: matrices, attention of chunks in halves and in int8, attention of a token; of the matrix rate and of the
# memory rate above; bytes per cycle of a processor between the matrices of a chunk; cycles of a product in a chain (the wait for the
# one before, the norm, the first weights) and of attention (the new unit, the merge, keeping the retaining head's input)
HIGH = {"matmul": 0.515, "halves": 0.365, "int8": 0.418, "one": 0.65, "matrix": 0.9, "memory": 1.0, "between": 6.5, "product": 4800,
        "attend": 14000}
LOW = {"matmul": 0.412, "halves": 0.267, "int8": 0.314, "one": 0.45, "matrix": 0.6, "memory": 0.9, "between": 5.0, "product": 6500,
       "attend": 22000}

# slots: per int8 mma of q4; per warp and tile of 16 rows x 64 units, halves and int8; per unit of a head of a token
Q4, HALVES, INT8 = 13.2, 614, 662
ONE = {128: 47, 64: 27}
BATCH = 64  # tokens that are scored together
REST = 30e-6  # seconds of a token outside of its layers and the output

LAYERS, CHUNK, FF, EMBD, HEADS, DIM, UNITS = 32, 1024, 14336, 4096, 8, 128, 16384
LINEAR = 14.29e12 + 0.41e12  # operations of a chunk: matrices, retaining heads
ATTENTION = 9.07e12
TILE_OPS = 2 * 2 * 16 * 64 * DIM


def prefill(name, reached):
    """Seconds of a chunk of the 8B shape, without an eviction: matrices, attention, everything else."""
    sms, ghz, rate, share, _ = DEVICES[name]
    s8, f32, f16 = TENSOR[name]
    matrix = reached["matrix"]
    warps = 4 * sms * ghz * 1e9  # schedulers' cycles per second
    linear = LINEAR / (8192 / max(Q4 / reached["matmul"], s8 / matrix) * warps)
    cycles = max(HALVES / reached["halves"], 128 * f32 / matrix)
    if f16 < f32:
        cycles = max(INT8 / reached["int8"], (32 * s8 + 64 * f16) / matrix)
    attention = ATTENTION / (TILE_OPS / cycles * warps)
    rest = LAYERS * CHUNK * 4 * (4 * FF + 12 * EMBD)  # bytes between the matrices
    rest += LAYERS * HEADS * (UNITS + CHUNK) * (2 * 80 + 2 * 3.5 * DIM)
    return linear, attention, rest / min(rate * 1e9 * share * reached["memory"], sms * ghz * 1e9 * reached["between"])


# layers, width, feed-forward, KV heads, numbers of a head, rows of q, k and v
SHAPES = {"8B": (LAYERS, EMBD, FF, HEADS, DIM, 6144), "1B": (16, 2048, 8192, 8, 64, 3072)}
HIDDEN, VOCABULARY = 1024, 128256


def pieces(name, reached, shape):
    """Of a token: seconds of a layer's weights, of its attention and of the output; bytes of weights, units and output."""
    sms, ghz, rate, share, _ = DEVICES[name]
    _, embd, ff, heads, dim, qkv = SHAPES[shape]
    q4, memory, hertz = 0.5625, rate * 1e9 * share * reached["memory"], ghz * 1e9
    weights = (qkv * embd + heads * 4 * dim * embd + 3 * ff * embd) * q4
    units = 2 * heads * UNITS * dim * 20 / 32
    chain = weights / memory + 4 * reached["product"] / hertz
    attention = max(units / memory, heads * UNITS * ONE[dim] / (reached["one"] * 4 * sms * hertz)) + reached["attend"] / hertz
    output = VOCABULARY * embd * q4
    return (chain, attention, output / memory), (weights, units, output)


def decode(name, reached, shape="8B"):
    """Tokens per second, and the share of the datasheet's memory rate."""
    _, _, rate, share, gap = DEVICES[name]
    layers, qkv = SHAPES[shape][0], SHAPES[shape][5]
    memory = rate * 1e9 * share * reached["memory"]
    (chain, attention, output), (weights, units, output_bytes) = pieces(name, reached, shape)
    # eight blocks read the weights of a layer's retaining heads, each 50 GB/s at most
    score = HIDDEN * qkv * 1.0625
    scoring = (score / min(memory, 8 * 50e9) + 2 * gap * 1e-6) / BATCH
    seconds = layers * (chain + attention + scoring + 2 * gap * 1e-6) + output + REST
    n_bytes = layers * (weights + units + score / BATCH) + output_bytes
    return 1 / seconds, 100 * n_bytes / rate / 1e9 / seconds


def ahead(name, reached, shape="8B", right=2 / 3):
    """Times as many tokens per second with an MTP layer, each of whose proposals is right by this chance.

    Tokens of one pass share the weights, not the attention, and are in no chain. A proposal is a pass of one layer of few units,
    its projection (a sixth of a layer's weights at most) and the output.
    """
    layers, gap = SHAPES[shape][0], DEVICES[name][4] * 1e-6
    chain, attention, output = pieces(name, reached, shape)[0]
    proposal = chain * 7 / 6 + output + 2 * REST + 15 * gap
    rates = [sum(right**i for i in range(n + 1)) /
             (layers * (chain + (n + 1) * (attention + gap) + 6 * gap) + output + REST + n * proposal) for n in (1, 2, 3)]
    return max(rates) / decode(name, reached, shape)[0]


# ---- beside a run -------------------------------------------------------------------------------------------------


def number(pattern, text, otherwise):
    found = re.search(pattern, text, re.M)
    return float(found.group(1)) if found else otherwise


def device_of(log):
    """The device of a log as in DEVICES and TENSOR, with its own ceilings in place of shares of a datasheet's."""
    name, arch, sms = re.search(r"^(\S.*), sm_(\d+), (\d+) SMs, driver", log, re.M).groups()
    sms, ghz = int(sms), number(r"issue: .* at ([\d.]+) GHz", log, 1)
    rate = number(r"^read: ([\d.]+) GB/s", log, number(r"copy: ([\d.]+) GB/s", log, 1))
    gap = number(r"launch that does nothing: ([\d.]+) us", log, 5)
    s8, f32 = (4 * operations * sms * ghz / 1e3 / number(rf"^rate_{kind}: ([\d.]+) TOPS", log, 1e9)
               for kind, operations in (("s8", 8192), ("f16", 4096)))
    return name, (sms, ghz, rate, 1.0, gap), (s8, f32, f32 / 2 if arch in GEFORCE else f32)


def beside(log):
    name, DEVICES[name], TENSOR[name] = device_of(log)
    print(f"{name}, predicted from its ceilings:")
    predicted = {("token", shape): [decode(name, r, shape)[0] for r in (LOW, HIGH)] for shape in SHAPES}
    predicted["chunk", "8B"] = [CHUNK / sum(prefill(name, r)) for r in (LOW, HIGH)]
    for what, shape, units, speed in re.findall(
            r"^(token|chunk) of (\S+) behind (\d+) units: .* ([\d.]+) tokens/s", log, re.M):
        if (what, shape) in predicted and int(units) == UNITS:
            low, high = predicted[what, shape]
            print(f"{what} of {shape}: predicted {low:.0f} to {high:.0f}, measured {float(speed):.0f} tokens/s")


if len(sys.argv) > 1:
    beside(open(sys.argv[1], encoding="utf-8").read())
    sys.exit()

for name in DEVICES:
    chunk = [CHUNK / sum(prefill(name, r)) for r in (LOW, HIGH)]
    parts = ", ".join(f"{1e3 * x:.0f}" for x in prefill(name, LOW))
    print(f"{name:8}  chunk of {CHUNK}, 8B: {chunk[0]:6.0f} to {chunk[1]:6.0f} tokens/s (low: matrices, attention, other {parts} ms)")
    for shape in SHAPES:
        (low, low_share), (high, high_share) = decode(name, LOW, shape), decode(name, HIGH, shape)
        print(f"{name:8}  token, {shape}: {low:4.0f} to {high:4.0f} tokens/s ({low_share:.0f} to {high_share:.0f} % of the bandwidth)")
    print(f"{name:8}  MTP layer, 2 of 3 proposals right: 8B {ahead(name, LOW):.2f} to {ahead(name, HIGH):.2f} times")


# ---- training retaining heads -------------------------------------------------------------------------------------
#
# Rows are read as a prompt of one chunk; labels, nets and AdamW are float products (matmul_f32) and passes over memory.
# A product of floats takes 2 slots: 256 of the inner loop's 360 PTX instructions, whose reads of shared memory take as
# long as they.

FLOAT = 2.0
# layers, width, feed-forward, query heads, KV heads, numbers of a head
MODELS = {"1B": (16, 2048, 8192, 32, 8, 64), "3B": (28, 3072, 8192, 24, 8, 128), "8B": (32, 4096, 14336, 32, 8, 128)}
# the defaults: steps, rows of a step, tokens of a row, with labels, that ask, hidden numbers
STEPS, BATCH, ROW, CONTEXT, ASKED, HIDDEN = 256, 1, 1600, 1150, 170, 128
OTHER_ROWS = 2 * 12  # two validations


def training(device, model):
    sms, ghz, rate, share, gap = DEVICES[device]
    layers, width, ff, heads, kv, dim = MODELS[model]
    steps, batch, n, context, asked, hidden = STEPS, BATCH, ROW, CONTEXT, ASKED, HIDDEN
    warps, memory, floats = 4 * sms * ghz * 1e9, rate * 1e9 * share * LOW["memory"], 128 * sms * ghz * 1e9 * LOW["matmul"] / FLOAT
    inputs = (heads + 2 * kv) * dim
    matrices = 2 * n * layers * (width * (inputs + heads * dim) + 3 * width * ff)
    attention = 4 * n * n / 2 * layers * heads * dim
    cycles = max(HALVES / LOW["halves"], 128 * TENSOR[device][1] / LOW["matrix"])
    forward = matrices / (8192 / max(Q4 / LOW["matmul"], TENSOR[device][0] / LOW["matrix"]) * warps)
    forward += attention / (2 * 2 * 16 * 64 * dim / (cycles * dim / 128) * warps)
    forward += layers * n * 4 * (4 * ff + 12 * width) / memory
    logits = layers * asked * heads * (n if asked < context else n - asked / 2)
    blocks = layers * kv * -(-asked * heads // kv // 1024)
    labels = logits * dim / floats + 3 * 4 * logits / memory + 4 * blocks * gap * 1e-6
    score = layers * context * hidden * inputs / floats
    gradient = score + layers * context * 4 * (2 * inputs + 6 * hidden) / memory
    step = 32 * layers * hidden * (inputs + kv) / memory
    row = forward + labels + score
    return steps * (batch * (row + gradient) + step) + OTHER_ROWS * row


for device in ("RTX 4090", "AGX Orin"):
    print(f"training, {device}: " + ", ".join(f"{model} {training(device, model) / 60:.1f} min" for model in MODELS))
