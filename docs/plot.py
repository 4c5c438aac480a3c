#!/usr/bin/env python3
"""Draws docs/memory-budget.svg and prints the tables of quant/eval/notes/recall.md from docs/memory.jsonl, which
`retain eval … --json` wrote (docs/measure.sh). Needs nothing but Python.

    docs/plot.py            draws the picture
    docs/plot.py tables     prints the tables
"""
import json
import sys
from math import log2
from pathlib import Path

HERE = Path(__file__).parent
COLOURS = {'locret': '#0b62c4', 'keeper': '#111111', 'keydiff+global': '#d1560b', 'keydiff': '#0a8f6c'}
GREY = '#9a9a9a'
W, H, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 52, 150, 34, 46


def rows():
    with open(HERE / 'memory.jsonl') as f:
        return [json.loads(line) for line in f]


def select(task, **want):
    return [r for r in ROWS if r['task'] == task and all(r[k] == v for k, v in want.items())]


# ---- pictures --------------------------------------------------------------------------------------

def spread_labels(labels):
    """Moves labels (y, text, colour) apart, top down."""
    labels.sort()
    for i in range(1, len(labels)):
        labels[i][0] = max(labels[i][0], labels[i - 1][0] + 14)
    over = labels[-1][0] - (H - BOTTOM) if labels else 0
    if over > 0:
        for label in labels:
            label[0] -= over
    return labels


def draw(name, title, unit, series, ticks, say):
    """series: policy -> [(x, accuracy)]; ticks: x values to mark; say: their labels."""
    low = min(log2(x) for points in series.values() for x, _ in points)
    high = max(log2(x) for points in series.values() for x, _ in points)

    def place(x, y):
        return (LEFT + (log2(x) - low) / (high - low) * (W - LEFT - RIGHT),
                H - BOTTOM - y * (H - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{H}" fill="#ffffff"/>',
           f'<text x="{LEFT}" y="20" font-size="14" fill="#222222">{title}</text>']
    for i in range(6):
        _, y = place(2**low, i / 5)
        out.append(f'<path d="M{LEFT} {y:.1f}H{W - RIGHT}" stroke="#e4e4e4"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">'
                   f'{i / 5:.1f}</text>')
    for x in ticks:
        px, py = place(x, 0)
        out.append(f'<text x="{px:.1f}" y="{py + 18:.1f}" text-anchor="middle" fill="#555555">'
                   f'{say(x)}</text>')
    out.append(f'<text x="{(LEFT + W - RIGHT) / 2}" y="{H - 8}" text-anchor="middle" '
               f'fill="#555555">{unit}</text>')
    labels, others = [], []
    for policy in sorted(series, key=lambda p: p in COLOURS):
        colour = COLOURS.get(policy, GREY)
        points = [place(x, y) for x, y in sorted(series[policy])]
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" '
                   f'fill="none" stroke="{colour}" stroke-width="{2 if colour != GREY else 1}">'
                   f'<title>{policy}</title></polyline>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        if colour == GREY:
            others.append(points[-1][1])
        else:
            labels.append([points[-1][1], policy, colour])
    if others:
        labels.append([max(others), f'{len(others)} others', GREY])
    for y, text, colour in spread_labels(labels):
        out.append(f'<text x="{W - RIGHT + 8}" y="{y + 4:.1f}" fill="{colour}">{text}</text>')
    (HERE / f'memory-{name}.svg').write_text('\n'.join(out) + '\n</svg>\n')


def group(found, x):
    series = {}
    for r in found:
        series.setdefault(r['policy'], []).append((r[x], r['accuracy']))
    return {p: points for p, points in series.items() if len(points) > 1 and p != 'full'}


def pictures():
    budgets = lambda x: f'{x:.0f}'
    at_1k = select('recall', length=1000)
    draw('budget', 'Recall of eight facts after 1,000 tokens', 'cache units per head',
         group(at_1k, 'budget'), [31, 62, 125, 250, 500], budgets)


# ---- tables ----------------------------------------------------------------------------------------

def percent(r):
    spread = f" ± {100 * r['accuracy_spread']:.0f}" if r['accuracy_spread'] else ''
    return f"{100 * r['accuracy']:.0f}{spread}"


def table(columns, bytes_at, title):
    """A row per policy, best first, a column per (length, budget), and the cache's bytes at one."""
    cells = {(r['policy'], r['length'], r['budget']): r for r in select('recall')}
    policies = {p for p, *column in cells if tuple(column) in columns and p != 'full'}
    row = lambda p: [cells.get((p, *column)) for column in columns]
    full = [c for c in columns if all((p, *c) in cells for p in policies)]
    total = lambda p: sum(cells[(p, *c)]['accuracy'] for c in full)
    print(f'| policy | {" | ".join(title(*column) for column in columns)} | KiB |')
    print('|---|' + '---|' * (len(columns) + 1))
    for p in sorted(policies, key=lambda p: (-total(p), p)):
        size = cells[(p, *bytes_at)]['cache_bytes'] / 1024
        print(f'| `{p}` | {" | ".join(percent(r) if r else "" for r in row(p))} | {size:.0f} |')
    print()


def tables():
    of = lambda n, b: f'{n / b:.0f}x, {b}'
    table([(1000, b) for b in (500, 250, 125, 62, 31)], (1000, 125), of)
    table([(8192, b) for b in (4096, 2048, 1024, 512, 256, 128)], (8192, 256), of)
    table([(32768, b) for b in (4096, 2048, 1024, 512, 256)] + [(131072, b) for b in (4096, 256)],
          (32768, 256), lambda n, b: f'{n // 1024}K, {of(n, b)}')


ROWS = rows()
tables() if sys.argv[1:] == ['tables'] else pictures()
