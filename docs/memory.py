#!/usr/bin/env python3
"""Writes the tables of docs/memory.md from the rows that docs/memory.sh measured: between <!-- NAME --> and <!-- end -->.
A table without rows stays as it is.

    docs/memory.py build/memory/rows.jsonl
"""
import json
import re
import sys
from math import sqrt
from pathlib import Path

PAGE = Path(__file__).parent / 'memory.md'
tables = {}
for line in open(sys.argv[1]):
    row = json.loads(line)
    row['policy'] = re.sub(r':?(reserve|context)=[0-9]+', '', row['policy'])
    tables.setdefault(row['table'], []).append(row)


def percent(rows, **want):
    """Mean and 95 % interval of the mean over seeds."""
    found = [r for r in rows if all(r[k] == v for k, v in want.items())]
    if not found:
        return '-'
    r = found[-1]
    half = 196 * r['accuracy_spread'] / sqrt(r['seed_count'])
    return f"{100 * r['accuracy']:.0f}" + (f' ± {half:.0f}' if half >= .5 else '')


def table(head, body):
    return '\n'.join(['| ' + ' | '.join(r) + ' |' for r in [head] + body[:0]] + ['|' + '---|' * len(head)] +
                     ['| ' + ' | '.join(r) + ' |' for r in body])


def policies(rows):
    return list(dict.fromkeys(r['policy'] for r in rows))


def bytes_per_unit():
    """Of all heads together, with score and position; from the cache of policy full."""
    r = next(r for r in tables['recall'] if r['policy'] == 'full')
    return r['cache_bytes'] / r['budget']


def recall():
    rows = tables['recall']
    sizes = [(1000, 125), (1000, 62), (1000, 31), (8192, 128), (32768, 256)]
    sizes = [s for s in sizes if any((r['length'], r['budget']) == s for r in rows)]
    head = ['recall, % right'] + [f'{n:,} tokens: {b} units' for n, b in sizes]
    body = [['fewer units'] + [f'{n / b:.0f}x' for n, b in sizes]]
    small = []
    for n, b in sizes:
        cache = next(r['cache_bytes'] for r in rows if (r['length'], r['budget'], r['policy']) == (n, b, 'keeper'))
        small.append(f'{n * bytes_per_unit() / cache:.1f}x')
    body.append(['fewer bytes, with room for a chunk and an answer'] + small)
    for p in policies(rows):
        if p == 'full':
            continue
        body.append([f'`{p}`'] + [percent(rows, policy=p, length=n, budget=b) for n, b in sizes])
    full = ', '.join(f"{percent(rows, policy='full', length=n)} after {n:,} tokens" for n in (1000, 4000)
                     if any(r['policy'] == 'full' and r['length'] == n for r in rows))
    return table(head, body) + (f'\n\nWith everything kept: {full}.' if full else '')


def talk():
    rows = tables['talk']
    n = rows[0]['question_count']
    cells = [(31, 'off'), (31, 'words'), (125, 'off'), (125, 'words')]
    head = [f'right of {n}'] + [f"{b} units, recall {r}" for b, r in cells]

    def right(**want):
        found = [r for r in rows if all(r[k] == v for k, v in want.items())]
        return f"{found[-1]['right_count']:.0f}" if found else '-'
    return table(head, [[f'`{p}`'] + [right(policy=p, budget=b, recall=r) for b, r in cells]
                        for p in policies(rows) if p != 'full']) + f"\n\nWith everything kept: {right(policy='full')}."


def text():
    rows = tables['text']
    head = ['needle found, %', '64 units', '256 units']
    body = [[f'`{p}`'] + [percent(rows, policy=p, budget=b) for b in (64, 256)] for p in policies(rows) if p != 'full']
    return table(head, body) + f"\n\nWith everything kept: {percent(rows, policy='full')}."


def fillers():
    kinds, budgets = ('novel', 'invoices', 'chat'), (64, 128, 256)
    head = ['right of 80'] + [f'{k}, {b} units' for k in kinds for b in budgets]

    def right(kind, **want):
        found = [r for r in tables[kind] if all(r[k] == v for k, v in want.items())]
        return f"{found[-1]['right_count']:.0f}" if found else '-'
    return table(head, [[f'`{p}`'] + [right(k, policy=p, budget=b) for k in kinds for b in budgets]
                        for p in policies(tables['novel']) if p != 'full']) + \
        '\n\nWith everything kept: ' + ', '.join(f"{right(k, policy='full')} ({k})" for k in kinds) + '.'


def million():
    r = tables['million'][-1]
    return f"{r['right_count']:.0f} of {r['question_count']} codes, {r['seed_count']} seeds, are recalled after a million tokens."


page = PAGE.read_text(encoding='utf-8')
for name, make in (('recall', recall), ('talk', talk), ('text', text), ('fillers', fillers),
                   ('million', million)):
    if name in tables or name == 'fillers' and 'chat' in tables:
        page = re.sub(rf'(<!-- {name} -->\n).*?(<!-- end -->)', lambda m: m.group(1) + make() + '\n' + m.group(2), page, flags=re.S)
PAGE.write_text(page, encoding='utf-8')
