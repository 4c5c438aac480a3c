"""Write the training rows of the demo model's retaining heads: JSON lines for `retain heads train`.

    heads_data.py [--rows 4000] [--seed 6] > rows.jsonl

A row is a conversation with facts in filler, then questions about all of them with their answers."""
import argparse
import json
import random

import generate


def count(text):
    """Tokens of the demo model, roughly; this avoids needing the tokenizer."""
    return len(text) // 4 + 1


def row(r):
    n_tokens = r.choice((1024, 2048, 4096, 4096))
    most = 12 if n_tokens == 1024 else 24
    kind = r.choices(('chat', 'passkey', 'key', 'grass'), (.7, .1, .15, .05))[0]
    n_facts = {'chat': r.randint(2, most), 'key': 8 * r.randint(1, most // 4)}.get(kind, 1)
    turns, questions = generate.memory(r, r.randint(n_tokens * 35 // 100, n_tokens * 75 // 100),
                                       n_facts, count, kind)
    if r.random() < .1:
        turns = generate.sloppy(r, turns)
        questions = [tuple(text for _, text in generate.sloppy(r, (('user', q), ('assistant', a))))
                     for q, a in questions]
    turns, questions = merge(turns), [tuple(map(generate.plain, pair)) for pair in questions]
    return {'document': [generate.plain(text) for _, text in turns],
            'question': [q for q, _ in questions], 'answer': [a for _, a in questions]}


def merge(turns):
    """Merges turns so that roles alternate."""
    out = []
    for role, text in turns:
        if out and out[-1][0] == role:
            out[-1] = (role, out[-1][1] + ' ' + text)
        else:
            out.append((role, text))
    return out


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--rows', type=int, default=4000)
    parser.add_argument('--seed', type=int, default=6)
    a = parser.parse_args()
    r = random.Random(a.seed)
    for _ in range(a.rows):
        print(json.dumps(row(r), ensure_ascii=False))
