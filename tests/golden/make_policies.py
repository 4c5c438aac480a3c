#!/usr/bin/env python3
"""Writes policies.txt: which cache units survive under every row of the policy table.

A separate implementation in double precision, directly from the papers' formulas (and, where a
released code differs, from the one that runtime/cache/policy.c says it follows); it shares nothing with the C
code. One attention layer with 2 KV heads of 2 query heads each. 24 tokens were read, of which the
heads kept different ones (10 and 17), then 24 more. Budgets and protections are given with each line. Policies whose papers drop one unit per token also run token by token. Needs NumPy.

    tests/golden/make_policies.py        overwrites tests/golden/policies.txt
"""
from pathlib import Path

import numpy as np

DIM, KV, GROUP, OLD, N = 32, 2, 2, 24, 48
HEADS = KV * GROUP
MEAN, STD = (0.25, -0.5), (0.5, 2.0)   # of retaining heads' labels
M64 = (1 << 64) - 1


def number(i):
    """The i-th of the test's inputs, in [-1, 1); exact in float32."""
    return ((i * 2654435761 + 12345) % 2**32 >> 8) / 2**23 - 1


def mix(z):
    """splitmix64"""
    z = (z + 0x9E3779B97F4A7C15) & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def random_at(seed, stream, index):
    return (mix((mix((mix(seed) + stream) & M64) + index & M64) & M64) >> 11) * 2.0**-53


# q of 4 heads, k of 2, v of 2; a little off zero, so that keys have a mean
QKV = np.array([number(i) for i in range(N * 8 * DIM)]).reshape(N, 8, DIM) + 0.25
K = QKV[:, HEADS:HEADS + KV]
STORED = np.array([[number(99991 + h * N + t) for t in range(N)] for h in range(KV)])
STORED = np.round(STORED * 8) / 8          # many ties
# what the heads kept of the first 24 tokens
KEPT = [[t for t in range(OLD) if t % 5 in (0, 2)], [t for t in range(OLD) if t % 7 not in (1, 5)]]
UNITS = [kept + list(range(OLD, N)) for kept in KEPT]


# ---- scores of the units of a head -----------------------------------------------------------------

def keydiff(kv):
    k = np.array([K[t, kv] for t in UNITS[kv]])
    mean = (k / np.linalg.norm(k, axis=1, keepdims=True)).mean(0)
    return -(k @ mean) / np.linalg.norm(k, axis=1) / np.linalg.norm(mean)


def near_duplicates(kv):
    """A quarter of the logarithm of how many units have a unit's signs: mean over two tables of eight
    signs."""
    x = np.array([K[t, kv] for t in UNITS[kv]])
    signs = (x[:, :16] >= x[:, 16:]).reshape(-1, 2, 8)
    out = np.zeros(len(x))
    for table in range(2):
        for i, own in enumerate(signs[:, table]):
            out[i] += log(sum((own == other).all() for other in signs[:, table])) / 8
    return out


def log(x):
    """By Mitchell's log2, exponent plus mantissa."""
    mantissa, exponent = np.frexp(x)
    return (exponent - 1 + 2 * mantissa - 1) * np.log(2)


def least(kv, budget):
    """A unit that is the a-th newest token's scores at least log(budget / (RECENCY a))."""
    return -log(RECENCY / budget * np.array([N - t for t in UNITS[kv]]))


# ---- who survives ----------------------------------------------------------------------------------

def best(scores, n, among):
    """The n best of `among`; on ties the first."""
    return sorted(sorted(among, key=lambda i: (-scores[i], i))[:n])


def check_margin(scores, chosen, among):
    """Rounding must not decide: either exact ties or a clear difference."""
    out = [i for i in among if i not in chosen]
    if out and chosen:
        low, high = min(scores[i] for i in chosen), max(scores[i] for i in out)
        assert low == high or abs(low - high) > 1e-6 * max(1, abs(low)), (low, high)


def protected(units, sinks, stabilizers):
    return [i for i, t in enumerate(units) if t < sinks or i >= len(units) - stabilizers]


def survivors(units, scores, budget, sinks, stabilizers):
    safe = protected(units, sinks, stabilizers)
    rest = [i for i in range(len(units)) if i not in safe]
    chosen = best(scores, budget - len(safe), rest)
    check_margin(scores, chosen, rest)
    return [units[i] for i in sorted(safe + chosen)]


def share(scores, budget, sinks, stabilizers, most, least=None):
    """Ada-KV: the layer's units compete. Each head keeps its best fifth of a budget, and has at most
    `most`. Ties go to the lower head, then to the older unit. least: scores that the others have at
    least."""
    ranked, keep = [], [set() for _ in range(KV)]
    for h in range(KV):
        safe = protected(UNITS[h], sinks, stabilizers)
        order = safe + best(scores[h], N, [i for i in range(len(UNITS[h])) if i not in safe])
        order = sorted(order, key=lambda i: (i not in safe, -scores[h][i], i))
        keep[h].update(safe, order[:budget // 5])
        value = np.maximum(scores[h], least[h]) if least else scores[h]
        free = sorted((-value[i], h, i) for i in order if i not in keep[h])
        ranked += free[:most - len(keep[h])]
    ranked.sort()
    n = KV * budget - sum(map(len, keep))
    a, b = -ranked[n - 1][0], -ranked[n][0]
    assert a == b or abs(a - b) > 1e-6
    for _, h, i in ranked[:n]:
        keep[h].add(i)
    return [[UNITS[h][i] for i in sorted(keep[h])] for h in range(KV)]


# ---- budgets ---------------------------------------------------------------------------------------
# 3 layers of 2 heads with 8, 11, ... 23 units; scores with many ties, the lower layers' lower.

LAYERS = 3
LENGTHS = [8 + 3 * i for i in range(LAYERS * KV)]
GIVEN = [[round(number(77777 + 64 * i + p) * 4) / 4 + i // KV for p in range(n)]
         for i, n in enumerate(LENGTHS)]


def allocate(groups, budgets, sinks, stabilizers, most):
    """groups: heads that compete; budgets: of each head, a group has their sum. A head's best fifth
    is protected from the others."""
    out = [[] for _ in LENGTHS]
    for group in groups:
        total, keep, ranked = sum(budgets[h] for h in group), {h: set() for h in group}, []
        for h in group:
            units = list(range(LENGTHS[h]))
            safe = protected(units, sinks, stabilizers)
            order = sorted(units, key=lambda i: (i not in safe, -GIVEN[h][i], i))
            fifth = budgets[h] // 5 if len(group) > 1 else 0
            for rank, i in enumerate(order[:most]):
                if i in safe or rank < fifth:
                    keep[h].add(i)
                else:
                    ranked.append((-GIVEN[h][i], h, i))
        for _, h, i in sorted(ranked)[:total - sum(map(len, keep.values()))]:
            keep[h].add(i)
        for h in group:
            out[h] = sorted(keep[h])
    return out


def write_budgets():
    alone, flat = [[h] for h in range(6)], [8] * 6
    for name, groups, budgets, most in (
            ('alone', alone, flat, 99), ('shared', [list(range(6))], flat, 99),
            ('shared', [list(range(6))], flat, 10)):
        write(name, 8, 1, 1, most, allocate(groups, budgets, 1, 1, most))


SEED = 7
B = 20
RECENCY = 1    # instead of 50, so that age decides among these few units
LINES = []


def write(policy, budget, sinks, stabilizers, most, heads):
    for h, alive in enumerate(heads):
        LINES.append(f'{policy} {budget} {sinks} {stabilizers} {most} {h} '
                     + ' '.join(map(str, alive)))


def each(f, *args, **kw):
    return [survivors(UNITS[h], f(h), *args, **kw) for h in range(KV)]


# ---- token by token --------------------------------------------------------------------------------

def step_by_step(budget, sinks, stabilizers, scores):
    """The papers' own loop: a token's query attends to the kept units and to its own, then each head
    drops one unit. scores(units, t): of both heads after token t."""
    units = [[], []]
    for t in range(N):
        for h in range(KV):
            units[h].append(t)
        values = scores(units, t)
        if t >= budget:
            units = [survivors(units[h], values[h], budget, sinks, stabilizers) for h in range(KV)]
    return units


def write_steps():
    write('sink/1', B, 4, 0, 0, step_by_step(B, 4, 0, lambda units, t: [np.array(u, float) for u in units]))


def main():
    write('keydiff', B, 4, 2, 0, each(keydiff, B, 4, 2))
    both = share([keydiff(h) for h in range(KV)], B, 4, 5, 24)
    write('keydiff+global', B, 4, 5, 0, both)
    stored = lambda h: np.array([STORED[h][t] for t in UNITS[h]])
    write('locret', B, 4, 2, 0, each(stored, B, 4, 2))
    shares = [stored(h) * STD[h] + MEAN[h] for h in range(KV)]     # labels were standardised
    apart = [shares[h] - near_duplicates(h) for h in range(KV)]
    assert max(near_duplicates(0)) > 0 and max(near_duplicates(1)) > 0
    write('keeper', B, 4, 3, 0, share(apart, B, 4, 3, 24, [least(h, B) for h in range(KV)]))
    # one layer is the whole model
    write('sink', B, 4, 0, 0, each(lambda h: np.array(UNITS[h], float), B, 4, 0))
    write('random', B, 4, 2, 0, each(
        lambda h: np.array([random_at(SEED, h + 1, t) for t in UNITS[h]]), B, 4, 2))
    write_steps()
    write_budgets()
    text = ('# policy budget sinks stabilizers most head: positions that survive; '
            'see make_policies.py\n'
            '# NAME/1: a unit is evicted after each token; most: units of a head\n' + '\n'.join(LINES) + '\n')
    Path(__file__).with_name('policies.txt').write_text(text)


if __name__ == '__main__':
    main()
