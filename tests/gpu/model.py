"""Predicted speed of Llama-3.1-8B with 16,384 units, and of training heads, from counted instructions and bytes.

Instructions are those of kernels/cuda/report.txt (make cuda-report). Assumptions: three of four issue
slots are used, matrix units reach 90 % of their rate, memory 93 % (4090) or 88 % of the datasheet's;
latencies below are guesses in cycles. Nothing here was measured. Python 3, no packages.
"""

import math

# processors, GHz, GB/s, share of them reached, launch gap in us, blocks merged by a head's last
DEVICES = {
    "RTX 4090": (128, 2.52, 1008, 0.93, 2.2, 32),
    "H200": (132, 1.98, 4800, 0.88, 2.2, 33),
    "AGX Orin": (16, 1.30, 204.8, 0.88, 5.0, 4),
}
# cycles of a matrix instruction: m16n8k32 int8, m16n8k16 with sums of floats and of halves
TENSOR = {"RTX 4090": (16, 32, 16), "H200": (4, 4, 4), "AGX Orin": (8, 8, 8)}
ISSUE, MATRIX = 0.75, 0.9

# slots: per int8 mma of q4; per warp and tile of 16 rows x 64 units, halves and int8 (None: not there)
BEFORE = {"q4": 26.3, "halves": 2430, "int8": None, "expand": False, "prologue": 11800, "score": 19600}
NOW = {"q4": 14.1, "halves": 758, "int8": 823, "expand": True, "prologue": 500, "score": 6000}
# cycles in which a head's last block merges n splits of four query heads: one after the other, in ten
# rounds of loads each for 32 splits; or a warp each, eight splits in a round, after the sharing of tiles
BEFORE["merge"] = lambda n: 4 * (3800 * n / 32 + 500)
NOW["merge"] = lambda n: 500 + 600 + 650 * math.ceil(n / 8) + 500
# seconds after the last matrix: the largest logits (by one block, or by one for 4,096 of them), the host
BEFORE["top"], NOW["top"] = 200e-6, 90e-6

LAYERS, CHUNK, FF, EMBD, HEADS, DIM, UNITS = 32, 1024, 14336, 4096, 8, 128, 16384
LINEAR = 14.29e12 + 0.41e12  # operations of a chunk: matrices, retaining heads
ATTENTION = 9.07e12
TILE_OPS = 2 * 2 * 16 * 64 * DIM


def prefill(name, code):
    sms, ghz, rate, share, _, _ = DEVICES[name]
    s8, f32, f16 = TENSOR[name]
    warps = 4 * sms * ghz * 1e9  # schedulers' cycles per second
    linear = LINEAR / (8192 / max(code["q4"] / ISSUE, s8 / MATRIX) * warps)
    cycles = max(code["halves"] / ISSUE, 128 * f32 / MATRIX)
    if code["int8"] and f16 < f32:
        cycles = max(code["int8"] / ISSUE, (32 * s8 + 64 * f16) / MATRIX)
    attention = ATTENTION / (TILE_OPS / cycles * warps)
    rest = LAYERS * CHUNK * 4 * (4 * FF + 12 * EMBD)  # bytes between the matrices
    if code["expand"]:
        rest += LAYERS * HEADS * (UNITS + CHUNK) * (2 * 80 + 2 * 3.5 * DIM)
    other = rest / (rate * 1e9 * share) + 8e-3  # eviction, copies, host
    return linear, attention, other


def decode(name, code):
    _, ghz, rate, share, gap, merged = DEVICES[name]
    q4 = 0.5625
    kernels = [("qkv", 6144 * EMBD * q4, code["prologue"]),
               ("score", 1024 * 6144 * 1.0625, code["score"]),
               ("attention", 2 * HEADS * UNITS * 80, 5000 + code["merge"](merged)),
               ("o", EMBD * EMBD * q4, 0),
               ("gate", 2 * FF * EMBD * q4, code["prologue"]),
               ("down", FF * EMBD * q4, 0)]
    head = 128256 * EMBD * q4
    seconds = LAYERS * sum(b / (rate * 1e9 * share) + gap * 1e-6 + late / (ghz * 1e9)
                           for _, b, late in kernels)
    seconds += head / (rate * 1e9 * share) + code["top"]
    ideal = (LAYERS * sum(b for _, b, _ in kernels) + head) / (rate * 1e9)
    return 1 / seconds, 100 * ideal / seconds


for label, code in ("before", BEFORE), ("now", NOW):
    for name in DEVICES:
        linear, attention, other = prefill(name, code)
        tokens, share = decode(name, code)
        print(f"{label:6} {name:8}  chunk of {CHUNK}: matrices {1e3 * linear:4.0f} ms, attention "
              f"{1e3 * attention:4.0f}, other {1e3 * other:3.0f} = {CHUNK / (linear + attention + other):6.0f} "
              f"tokens/s; decode {tokens:4.0f} tokens/s, {share:2.0f} % of memory")


# ---- training retaining heads -------------------------------------------------------------------------------------
#
# Rows are read as a prompt of one chunk; labels, nets and AdamW are float products (matmul_f32) and passes over memory.
# A product of floats takes 2 slots: 256 of the inner loop's 360 PTX instructions, whose reads of shared memory take as
# long as they.

FLOAT = 2.0
# layers, width, feed-forward, query heads, KV heads, numbers of a head
MODELS = {"1B": (16, 2048, 8192, 32, 8, 64), "3B": (28, 3072, 8192, 24, 8, 128), "8B": (32, 4096, 14336, 32, 8, 128)}
# steps, rows of a step, tokens of a row, with labels, that ask, hidden numbers
RECIPES = {"short": (60, 2, 1280, 624, 624, 128), "Locret's": (3000, 1, 10240, 9984, 256, 1024)}
OTHER_ROWS = 64 + 10 * 32  # of the labels' scale, and ten validations


def training(device, model, recipe):
    sms, ghz, rate, share, gap, _ = DEVICES[device]
    layers, width, ff, heads, kv, dim = MODELS[model]
    steps, batch, n, context, asked, hidden = RECIPES[recipe]
    warps, memory, floats = 4 * sms * ghz * 1e9, rate * 1e9 * share, 128 * sms * ghz * 1e9 * ISSUE / FLOAT
    inputs = (heads + 2 * kv) * dim
    matrices = 2 * n * layers * (width * (inputs + heads * dim) + 3 * width * ff)
    attention = 4 * n * n / 2 * layers * heads * dim
    cycles = max(NOW["halves"] / ISSUE, 128 * TENSOR[device][1] / MATRIX)
    forward = matrices / (8192 / max(NOW["q4"] / ISSUE, TENSOR[device][0] / MATRIX) * warps)
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


for recipe in RECIPES:
    for device in ("RTX 4090", "AGX Orin"):
        print(f"training, {recipe:8} recipe, {device}: " + ", ".join(
            f"{model} {training(device, model, recipe) / 60:.1f} min" for model in MODELS))
