"""Predicted speed of two models with 16,384 units, and of training heads, from counted instructions and bytes.

Instructions are those of kernels/cuda/report.txt (make cuda-report). Every prediction is a range. High: three of four issue
slots are used, matrix units reach 90 % of their rate, memory 93 % (GeForce) or 88 to 90 % of the datasheet's, and blocks that wait
for each other (chain.cu) take 2,000 cycles, as much as grid.sync() on a V100 (1.4 us). Low: the shares that others publish for the
same work, 45 % of the slots, 60 % of the matrix rate, memory 13 % slower, waits of 6,000 cycles; with these llama.cpp's Q4_0
decode on an RTX 6000 Ada (76 % of the bandwidth) and SageAttention's 322 TOPS on a 4090 are inside the range. While blocks wait and
the input is normed, memory delivers the weights that were asked for before: four tiles for each warp, two blocks on each processor.
Latencies below are guesses in cycles. Nothing here was measured. Python 3, no packages.

model.py LOG, the log.txt of run.sh: the same for the device of that run, with its measured ceilings, next to its
measured tokens and chunks.
"""

import math
import re
import sys

# processors, GHz, GB/s, share of them reached, launch gap in us, blocks merged by a head's last
DEVICES = {
    "RTX 4090": (128, 2.52, 1008, 0.93, 2.2, 32),
    "RTX 5090": (170, 2.41, 1792, 0.93, 2.2, 43),
    "H100": (132, 1.755, 3350, 0.90, 2.2, 33),
    "H200": (132, 1.98, 4800, 0.88, 2.2, 33),
    "AGX Orin": (16, 1.30, 204.8, 0.88, 5.0, 4),
    "AGX Thor": (20, 1.57, 273, 0.88, 5.0, 5),
}
# cycles of a matrix instruction: m16n8k32 int8, m16n8k16 with sums of floats and of halves
TENSOR = {"RTX 4090": (16, 32, 16), "RTX 5090": (16, 32, 16), "H100": (4, 4, 4), "H200": (4, 4, 4), "AGX Orin": (8, 8, 8),
          "AGX Thor": (4, 4, 4)}
GEFORCE = ("86", "89", "120")  # half the rate with sums of floats
# shares of issue slots, of the matrix rate and of the memory rate above; cycles of a wait in a chain
HIGH = {"issue": 0.75, "matrix": 0.9, "memory": 1.0, "wait": 2000}
LOW = {"issue": 0.45, "matrix": 0.6, "memory": 0.87, "wait": 6000}

# slots: per int8 mma of q4; per warp and tile of 16 rows x 64 units, halves and int8
Q4, HALVES, INT8 = 14.1, 758, 823
PROLOGUE, KEEP = 500, 600  # cycles before a product; of keeping 64 tokens' inputs for the retaining heads
BATCH = 64  # tokens that are scored together
AHEAD = 2 * 8 * 4 * 576  # bytes of a processor
TOP = 90e-6  # seconds after the last matrix: the largest logits, the host
LAUNCHES = [["attention"], ["o", "gate", "down", "qkv"]]  # of a layer

LAYERS, CHUNK, FF, EMBD, HEADS, DIM, UNITS = 32, 1024, 14336, 4096, 8, 128, 16384
LINEAR = 14.29e12 + 0.41e12  # operations of a chunk: matrices, retaining heads
ATTENTION = 9.07e12
TILE_OPS = 2 * 2 * 16 * 64 * DIM


def merge(n):
    """Cycles in which a head's last block merges n splits of four query heads: a warp each, eight splits in a round of loads."""
    return 500 + 600 + 650 * math.ceil(n / 8) + 500


def prefill(name, reached):
    """Seconds of a chunk of the 8B shape: matrices, attention, everything else."""
    sms, ghz, rate, share, _, _ = DEVICES[name]
    s8, f32, f16 = TENSOR[name]
    issue, matrix = reached["issue"], reached["matrix"]
    warps = 4 * sms * ghz * 1e9  # schedulers' cycles per second
    linear = LINEAR / (8192 / max(Q4 / issue, s8 / matrix) * warps)
    cycles = max(HALVES / issue, 128 * f32 / matrix)
    if f16 < f32:
        cycles = max(INT8 / issue, (32 * s8 + 64 * f16) / matrix)
    attention = ATTENTION / (TILE_OPS / cycles * warps)
    rest = LAYERS * CHUNK * 4 * (4 * FF + 12 * EMBD)  # bytes between the matrices
    rest += LAYERS * HEADS * (UNITS + CHUNK) * (2 * 80 + 2 * 3.5 * DIM)
    return linear, attention, rest / (rate * 1e9 * share * reached["memory"]) + 8e-3  # eviction, copies, host


# layers, width, feed-forward, KV heads, numbers of a head, rows of q, k and v
SHAPES = {"8B": (LAYERS, EMBD, FF, HEADS, DIM, 6144), "1B": (16, 2048, 8192, 8, 64, 3072)}
HIDDEN, VOCABULARY = 1024, 128256


def decode(name, reached, shape="8B"):
    """Tokens per second, and the share of the datasheet's memory rate."""
    sms, ghz, rate, share, gap, merged = DEVICES[name]
    layers, embd, ff, heads, dim, qkv = SHAPES[shape]
    q4, memory, hertz = 0.5625, rate * 1e9 * share * reached["memory"], ghz * 1e9
    score = HIDDEN * qkv * 1.0625
    steps = {"qkv": (qkv * embd * q4, PROLOGUE),
             "attention": (2 * heads * UNITS * dim * 20 / 32, 5000 + merge(merged) + KEEP),
             "o": (heads * 4 * dim * embd * q4, 0),
             "gate": (2 * ff * embd * q4, PROLOGUE),
             "down": (ff * embd * q4, 0)}
    ahead = AHEAD * sms / memory
    seconds = 0
    for launch in LAUNCHES:
        seconds += gap * 1e-6
        for i, step in enumerate(launch):
            n_bytes, late = steps[step]
            exposed = max(0, (reached["wait"] + late) / hertz - ahead) if i else late / hertz
            seconds += n_bytes / memory + exposed
    # eight blocks read the weights of a layer's retaining heads, each 50 GB/s at most
    seconds += (score / min(memory, 8 * 50e9) + 2 * gap * 1e-6) / BATCH
    head = VOCABULARY * embd * q4
    seconds = layers * seconds + head / memory + TOP
    n_bytes = layers * (sum(b for b, _ in steps.values()) + score / BATCH) + head
    return 1 / seconds, 100 * n_bytes / rate / 1e9 / seconds


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
    sms, ghz, rate, share, gap, _ = DEVICES[device]
    layers, width, ff, heads, kv, dim = MODELS[model]
    steps, batch, n, context, asked, hidden = STEPS, BATCH, ROW, CONTEXT, ASKED, HIDDEN
    warps, memory, floats = 4 * sms * ghz * 1e9, rate * 1e9 * share * LOW["memory"], 128 * sms * ghz * 1e9 * LOW["issue"] / FLOAT
    inputs = (heads + 2 * kv) * dim
    matrices = 2 * n * layers * (width * (inputs + heads * dim) + 3 * width * ff)
    attention = 4 * n * n / 2 * layers * heads * dim
    cycles = max(HALVES / LOW["issue"], 128 * TENSOR[device][1] / LOW["matrix"])
    forward = matrices / (8192 / max(Q4 / LOW["issue"], TENSOR[device][0] / LOW["matrix"]) * warps)
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
