"""Ask the questions of heldout/ through `retain chat --plain` and count the right answers.

    heldout.py [--retain build/retain] [-m MODEL.gguf] [--wrong] [--free [--seed N]]

Each conversation of heldout/questions.txt is a chat of its own, greedy, nothing evicted. --wrong
prints the wrong answers. --free prints the answers to heldout/free.txt, one chat with the settings of the
screen, to be judged by a reader."""
import argparse
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
EXACT = ['--temp', '0', '--policy', 'full']
SCREEN = ['--budget', '96']     # what `retain` adds to plain mode's settings for the demo model
DONT_KNOW = ("haven't told", "hasn't told", "didn't tell", "not told", "don't know", "do not know",
             "never told", "no longer know", "don't have", "forgotten", "nothing yet", "not yet",
             "nobody told", "have not told")


def chat(retain, messages, options):
    """The answer to each message."""
    command = [retain, 'chat', '--plain', '--private', '--safe'] + options
    out = subprocess.run(command, input='\n'.join(messages) + '\n', text=True, check=True,
                         capture_output=True).stdout
    answers = out.splitlines()
    assert len(answers) == len(messages), f'{len(messages)} messages, {len(answers)} lines: {out}'
    return answers


def conversations(path):
    """-> [(kind, [(message, expected or None)])]"""
    out, kind, turns = [], '', []
    with open(path) as f:
        for line in [*f.read().splitlines(), '']:
            if line.startswith('=='):
                kind = line[2:].strip()
            elif line.startswith('>'):
                turns.append((line[1:].strip(), None))
            elif line.startswith('?'):
                turns[-1] = turns[-1][0], line[1:].strip()
            elif not line and turns:
                out.append((kind, turns))
                turns = []
    return out


def has(answer, word):
    return re.search(r'(?<!\w)' + re.escape(word.strip().lower()) + r'(?!\w)', answer) is not None


def right(answer, expected):
    answer = answer.lower()
    if expected == '~':
        return any(words in answer for words in DONT_KNOW)
    if '&' in expected:
        return any(all(not has(answer, part.strip()[1:]) if part.strip().startswith('!') else
                       any(has(answer, word) for word in part.split('/'))
                       for part in choice.split('&')) for choice in expected.split('|'))
    return any(has(answer, word) for word in expected.split('|'))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--retain', default='build/retain')
    parser.add_argument('-m', '--model')
    parser.add_argument('--wrong', action='store_true')
    parser.add_argument('--free', action='store_true')
    parser.add_argument('--seed', default='1', help='of --free')
    a = parser.parse_args()
    model = ['-m', a.model] if a.model else []
    if a.free:
        with open(HERE + '/heldout/free.txt') as f:
            messages = f.read().splitlines()
        for pair in zip(messages, chat(a.retain, messages, model + SCREEN + ['--seed', a.seed])):
            print('> {}\n{}'.format(*pair))
        return
    counts = {}
    for kind, turns in conversations(HERE + '/heldout/questions.txt'):
        answers = chat(a.retain, [message for message, _ in turns], model + EXACT)
        for (message, expected), answer in zip(turns, answers):
            if expected is None:
                continue
            ok = right(answer, expected)
            n_right, n = counts.get(kind, (0, 0))
            counts[kind] = n_right + ok, n + 1
            if a.wrong and not ok:
                print(f'{kind}: {message} -> {answer} (expected {expected})')
    for kind, (n_right, n) in counts.items():
        print(f'{n_right:3} of {n:3}  {kind}')
    for name, inside in (('inside', True), ('outside', False)):
        rows = [c for kind, c in counts.items() if ('inside' in kind) == inside]
        n_right, n = (sum(x) for x in zip(*rows))
        print(f'{n_right:3} of {n:3}  all {name} the generator: {100 * n_right / n:.0f} %')


if __name__ == '__main__':
    main()
