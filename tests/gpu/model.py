"""Predicted speed of Llama-3.1-8B with 16,384 units, and of training heads, from counted instructions and bytes.

Instructions are those of kernels/cuda/report.txt (make cuda-report). Assumptions: three of four issue
slots are used, matrix units reach 90 % of their rate, memory 93 % (4090) or 88 % of the datasheet's;
latencies below are guesses in cycles. Blocks that wait for each other (chain.cu) take 2,000 cycles, as much
as grid.sync() on a V100 (1.4 us); meanwhile and while the input is normed, memory delivers the weights
that were asked for before: four tiles for each warp, two blocks on each processor. Nothing here was
measured. Python 3, no packages.

model.py LOG, the log.txt of run.sh: the same for the device of that run, with its measured ceilings, next to its
measured tokens and chunks.
"""

import math
import re
import sys

# processors, GHz, GB/s, share of them reached, launch gap in us, blocks merged by a head's last
DEVICES = {
    "RTX 4090": (128, 2.52, 1008, 0.93, 2.2, 32),
    "H200": (132, 1.98, 4800, 0.88, 2.2, 33),
    "AGX Orin": (16, 1.30, 204.8, 0.88, 5.0, 4),
    "AGX Thor": (20, 1.57, 273, 0.88, 5.0, 5),
}
# cycles of a matrix instruction: m16n8k32 int8, m16n8k16 with sums of floats and of halves
TENSOR = {"RTX 4090": (16, 32, 16), "H200": (4, 4, 4), "AGX Orin": (8, 8, 8), "AGX Thor": (4, 4, 4)}
GEFORCE = ("86", "89", "120")  # half the rate with sums of floats
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
# tokens that are scored together; their inputs are kept by attention, in 600 cycles
BEFORE["batch"], NOW["batch"] = 1, 64
KEEP, WAIT, AHEAD = 600, 2000, 2 * 8 * 4 * 576  # bytes of a processor
# launches of a layer
BEFORE["launches"] = [["qkv"], ["score"], ["attention"], ["o"], ["gate"], ["down"]]
NOW["launches"] = [["attention"], ["o", "gate", "down", "qkv"]]
# what changed between them, in order
EVEN = dict(NOW, launches=BEFORE["launches"], batch=1)
BATCH = dict(NOW, launches=[["qkv"], ["attention"], ["o"], ["gate"], ["down"]])
# programmatic dependent launches (sm_90 and later) instead of the chain: 0.7 us of the gap remain, and the first
# weights are loaded meanwhile
DEPENDENT, BOTH = dict(BATCH, gap=0.7), dict(NOW, gap=0.7)

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


# layers, width, feed-forward, KV heads, numbers of a head, rows of q, k and v
SHAPES = {"8B": (LAYERS, EMBD, FF, HEADS, DIM, 6144), "1B": (16, 2048, 8192, 8, 64, 3072)}
HIDDEN, VOCABULARY = 1024, 128256


def decode(name, code, shape="8B"):
    """Tokens per second, the share of memory's rate, launches and bytes of a token."""
    sms, ghz, rate, share, gap, merged = DEVICES[name]
    layers, embd, ff, heads, dim, qkv = SHAPES[shape]
    q4, batch, memory, hertz = 0.5625, code["batch"], rate * 1e9 * share, ghz * 1e9
    score = HIDDEN * qkv * 1.0625
    steps = {"qkv": (qkv * embd * q4, code["prologue"]),
             "score": (score, code["score"]),
             "attention": (2 * heads * UNITS * dim * 20 / 32,
                           5000 + code["merge"](merged) + (KEEP if batch > 1 else 0)),
             "o": (heads * 4 * dim * embd * q4, 0),
             "gate": (2 * ff * embd * q4, code["prologue"]),
             "down": (ff * embd * q4, 0)}
    ahead = AHEAD * sms / memory
    seconds = 0
    for launch in code["launches"]:
        seconds += code.get("gap", gap) * 1e-6
        for i, step in enumerate(launch):
            n_bytes, late = steps[step]
            exposed = max(0, (WAIT + late) / hertz - ahead) if i else late / hertz
            seconds += n_bytes / memory + exposed
    if batch > 1:  # eight blocks read the weights of a layer, each 50 GB/s at most
        seconds += (score / min(memory, 8 * 50e9) + 2 * gap * 1e-6) / batch
    head = VOCABULARY * embd * q4
    seconds = layers * seconds + head / memory + code["top"]
    n_bytes = layers * (sum(b for s, (b, _) in steps.items() if s != "score") + score / batch) + head
    launches = layers * len(code["launches"]) + (3 if len(code["launches"]) == 2 else 4)
    return 1 / seconds, 100 * n_bytes / rate / 1e9 / seconds, launches + (2 * layers / batch if batch > 1 else 0), n_bytes


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
    return name, (sms, ghz, rate, 1.0, gap, math.ceil(2 * sms / 8)), (s8, f32, f32 / 2 if arch in GEFORCE else f32)


def beside(log):
    name, DEVICES[name], TENSOR[name] = device_of(log)
    print(f"{name}, predicted from its ceilings:")
    predicted = {("token", shape): decode(name, NOW, shape)[0] for shape in SHAPES}
    predicted["chunk", "8B"] = CHUNK / sum(prefill(name, NOW))
    for what, shape, units, speed in re.findall(
            r"^(token|chunk) of random (\S+) behind (\d+) units: .* ([\d.]+) tokens/s", log, re.M):
        if (what, shape) in predicted and int(units) == UNITS:
            print(f"{what} of {shape}: predicted {predicted[what, shape]:6.0f}, measured {float(speed):6.0f} tokens/s")


if len(sys.argv) > 1:
    beside(open(sys.argv[1], encoding="utf-8").read())
    sys.exit()

for label, code in ("before", BEFORE), ("now", NOW):
    for name in DEVICES:
        linear, attention, other = prefill(name, code)
        print(f"{label:6} {name:8}  chunk of {CHUNK}: matrices {1e3 * linear:4.0f} ms, attention "
              f"{1e3 * attention:4.0f}, other {1e3 * other:3.0f} = {CHUNK / (linear + attention + other):6.0f} tokens/s")
for shape in SHAPES:
    for label, code in (("before", BEFORE), ("even tiles, merge by warps", EVEN), ("64 scored together", BATCH),
                        ("one launch between attentions (now)", NOW), ("dependent launches instead", DEPENDENT),
                        ("both", BOTH)):
        rows = [decode(name, code, shape) for name in DEVICES if "gap" not in code or name == "H200"]
        speed = "; ".join(f"{tokens:4.0f} tokens/s, {share:2.0f} %" for tokens, share, _, _ in rows)
        print(f"{shape} {label:36} {speed}; {rows[0][2]:.1f} launches, {rows[0][3] / 1e9:.2f} GB")


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
