"""Compare the rows of `retain eval … --answers` question by question.

    retain eval talk -f quant/eval/talk/heldout.txt … --policy full,keeper --recall off,words --answers | paired.py

For each row: right answers with a 95 % interval (Wilson), how many of those that `full` answers, and
against the same row without recall the answers gained and lost, with the p of a two-sided sign test
(McNemar's exact test). Everything that is not JSON is passed over."""
import json
import math
import sys


def wilson(right, n, z=1.96):
    if n == 0:
        return 0, 0
    share, middle = right / n, z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + middle / (2 * n))
    return (share + middle - spread) / (1 + 2 * middle), (share + middle + spread) / (1 + 2 * middle)


def sign_test(gained, lost):
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1)) / 2 ** n
    return min(1, 2 * tail)


def read(lines):
    """-> {(task, length, policy, budget, recall): {(seed, number): right}}"""
    rows = {}
    for line in lines:
        if not line.startswith('{"task"'):
            continue
        a = json.loads(line)
        if 'question' not in a or 'seed' not in a:
            continue
        key = a['task'], a['length'], a['policy'], a['budget'], a['recall']
        rows.setdefault(key, {})[a['seed'], a['number']] = a['right'] >= 1
    return rows


def main():
    rows = read(sys.stdin)
    print(f'{"task":12} {"length":>8} {"budget":>6}  {"policy":28} {"recall":7} {"right":>9}  '
          f'{"interval":12} {"of full":>11}  against no recall')
    for (task, length, policy, budget, recall), answers in rows.items():
        n, right = len(answers), sum(answers.values())
        low, high = wilson(right, n)
        full = next((a for k, a in rows.items() if k[:2] == (task, length) and
                     k[2].startswith('full')), None)
        known = [q for q in answers if full and full.get(q)]
        kept = f'{sum(answers[q] for q in known)} of {len(known)}' if known else '-'
        without = rows.get((task, length, policy, budget, 'off')) if recall != 'off' else None
        against = ''
        if without:
            gained = sum(answers[q] and not without[q] for q in answers)
            lost = sum(without[q] and not answers[q] for q in answers)
            against = f'gained {gained}, lost {lost}, p = {sign_test(gained, lost):.1g}'
        print(f'{task:12} {length:8} {budget:6}  {policy[:28]:28} {recall:7} {right:4} of {n:<4} '
              f'{100 * low:4.0f}-{100 * high:3.0f} %   {kept:>11}  {against}')


if __name__ == '__main__':
    main()
