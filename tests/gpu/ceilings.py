"""What the libraries of others reach on this card, for the table beside ours: bytes read and copied, products of bf16, int8 and
4-bit weights in groups of 32, attention of a token and of a chunk over 16,384 units. One row each; needs PyTorch.

    python3 ceilings.py [cpu]       cpu: small sizes, to try the script
"""
import sys
import time

try:
    import torch as t
except ImportError:
    print('skip: PyTorch is not installed')
    sys.exit(0)
import torch.nn.functional as f

ON_GPU = sys.argv[1:] != ['cpu'] and t.cuda.is_available()
DEVICE, PART = ('cuda', 1) if ON_GPU else ('cpu', 64)


def seconds(run, n=30):
    """Median of n runs, after three that are not counted."""
    times = []
    for _ in range(n + 3):
        if ON_GPU:
            begin, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
    return sorted(times[3:])[n // 2]


def row(name, unit, work, run):
    """work: bytes or operations of one run."""
    try:
        x = seconds(run)
        print(f'torch {name:<28} {1e6 * x:9.1f} us {work / x / (1e12 if unit == "TOPS" else 1e9):8.1f} {unit}', flush=True)
    except Exception as e:  # a version of PyTorch without this operation
        print(f'torch {name:<28} failed: {str(e)[:90]}', flush=True)


def random(*shape):
    return t.randn(*shape, device=DEVICE, dtype=t.bfloat16)


def whole(low, high, *shape, dtype=t.int8):
    return t.randint(low, high, shape, device=DEVICE, dtype=dtype)


big = random((1 << 30) // PART)
other = t.empty_like(big)
row('read', 'GB/s', 2 * big.numel(), lambda: big.view(t.int16).max())
row('copy', 'GB/s', 4 * big.numel(), lambda: other.copy_(big))
m, k, n = max(1024 // PART, 32), 4096 // PART, 14336 // PART
a, b = random(m, k), random(n, k)
row(f'matmul bf16 {m}x{k}x{n}', 'TOPS', 2 * m * k * n, lambda: a @ b.T)
a8, b8 = whole(-9, 9, m, k), whole(-9, 9, n, k)
row('matmul int8', 'TOPS', 2 * m * k * n, lambda: t._int_mm(a8, b8.T))
if ON_GPU:
    w = t._convert_weight_to_int4pack(whole(0, 255, n, k // 2, dtype=t.uint8), 8)
    scales = random(k // 32, n, 2)
    for rows in 1, 8, 1024:
        x = random(rows, k)
        few = rows < 9
        row(f'4-bit weights, {rows} rows', 'GB/s' if few else 'TOPS', n * k * (0.625 if few else 2 * rows),
            lambda: t._weight_int4pack_mm(x, w, 32, scales))
units = 16384 // PART
for rows in 1, m:
    q, keys, values = random(1, 32, rows, 128), random(1, 8, units, 128), random(1, 8, units, 128)
    row(f'attention {rows}x{units}, 32/8 heads', 'GB/s' if rows == 1 else 'TOPS',
        4 * units * 8 * 128 if rows == 1 else 4 * rows * units * 32 * 128,
        lambda: f.scaled_dot_product_attention(q, keys, values, enable_gqa=True))
