"""Train the demo model: short rows first, then rows of all lengths; the learning rate decays over
the last half.

The schedule runs on progress = the larger of (steps done / MAX_STEPS) and (minutes / --minutes), so
that a machine with less time to spare still completes every phase. A checkpoint holds the complete
state; a run that finds one continues from it. With --start a new schedule begins with the weights
of another checkpoint, and with rows of all lengths."""
import argparse
import os
import random
import time
from dataclasses import asdict

import torch

import generate
from generate import MARK
from model import Config, Llama, WeightedCrossEntropy
from tokenizer import BOS, END, FIRST_BYTE, PAD, ROLES, Tokenizer

SHORT = (.1, (256, 16)), (.3, (512, 8))      # until this progress: row length, rows
MIXED_FROM = SHORT[-1][0]      # then rows of all lengths: shorter ones alone unlearn far distances
MIXED = {(512, 8): .4, (1024, 4): .2, (2048, 2): .13, (3072, 1): .07, (Config.context, 1): .2}
MEMORY = (512, .15), (1024, .4), (Config.context, .6)      # by length: rows only about memory
MAX_STEPS = 10000
WARM_UP, DECAY = 80, .5      # steps; last share of the run
ADAM_LR, MUON_LR, MUON_DECAY = 2e-3, .02, .05


# ------------------------------------------------------------------------------------------- rows
def encode(tokenizer, turns, value=2., user=.1):
    """(ids, weights): weights[i] is the weight of predicting ids[i]. Other assistant tokens have
    weight 1."""
    ids, weights = [BOS], [0.]
    for role, text in turns:
        ids.append(ROLES[role])
        weights.append(.05)
        if role == 'assistant':
            if not text.startswith(MARK):
                text = ' ' + text
            for i, part in enumerate(text.split(MARK)):
                part = tokenizer.encode(part)
                ids += part
                weights += [value if i % 2 else 1.] * len(part)
        else:
            part = tokenizer.encode(' ' + text)
            ids += part
            weights += [user if role == 'user' else 0.] * len(part)
        ids.append(END)
        weights.append(1. if role == 'assistant' else user if role == 'user' else 0.)
    return ids, weights


def copy_row(r, n, vocab):
    """Random tokens, repeated: the fastest way to teach looking back."""
    ids, weights = [BOS], [0.]
    while len(ids) < n:
        part = [r.randrange(FIRST_BYTE + 10, vocab) for _ in range(r.randint(8, min(64, n // 3)))]
        for i in range(3):
            ids += part
            weights += [.9 if i else 0.] * len(part)
    return ids[:n], weights[:n]


def memory_turns(tokenizer, r, n):
    """Facts scattered in filler, all the questions at the end. In short rows the questions are
    repeated; in long ones that would teach to copy the previous answer."""
    long = n > 1024
    kind = r.choices(('chat', 'passkey', 'key', 'grass'), (.7, .1, .1, .1))[0]
    n_facts = {'chat': r.randint(2, 24 if long else 12), 'passkey': 2,
               'key': 8 * r.randint(1, 12 if long else 6), 'grass': 1}[kind]
    n_context = int(n * r.uniform(.6, .95) if long else n * r.uniform(.4, .8))
    turns, questions = generate.memory(r, n_context, n_facts, tokenizer.count, kind,
                                       scatter=r.random() < (.5 if long else .8))
    c = generate.Conversation(r)
    if r.random() < .08 and questions:
        turns = [('query', questions[0][0])] + turns
        questions = questions[:1]
    for pair in questions:
        c.add(*pair)
        if r.random() < .15:
            c.filler()
    while sum(tokenizer.count(text) + 2 for _, text in c.turns) < n - n_context:
        again = questions and not long and r.random() > .3
        c.add(*r.choice(questions)) if again else c.filler()
    return turns + c.turns


def chat_turns(tokenizer, r, n):
    mode = r.choices(list(generate.MODES), (.34, .19, .09, .09, .13, .16))[0]
    c = generate.conversation(r, n + 8, tokenizer.count, mode)
    asked = [i for i, key in c.recalls if key]
    if asked and r.random() < .08:
        return [('query', c.turns[r.choice(asked) - 1][1])] + c.turns
    return c.turns


def shape(r, stage):
    """(row length, rows) of a step"""
    return next((s for end, s in SHORT if stage < end), None) \
        or r.choices(list(MIXED), MIXED.values())[0]


def row(tokenizer, r, n, stage):
    """One training row: n + 1 ids and weights."""
    late = stage >= MIXED_FROM
    if r.random() < (.12 if stage < .1 else .02):
        return copy_row(r, n + 1, len(tokenizer))
    memory = late and r.random() < next(share for longest, share in MEMORY if n <= longest)
    turns = (memory_turns if memory else chat_turns)(tokenizer, r, n)
    if r.random() < .15:
        turns = generate.sloppy(r, turns)
    if r.random() < .04:
        turns = [('system', r.choice(generate.SYSTEM))] + turns
    ids, weights = encode(tokenizer, turns, *((3., .02) if late else (2., .1)))
    short = n + 1 - len(ids)
    return (ids + [PAD] * short)[:n + 1], (weights + [0.] * short)[:n + 1]


def batch(tokenizer, r, rows, n, stage):
    """inputs, targets, weights: each [rows, n]"""
    made = [row(tokenizer, r, n, stage) for _ in range(rows)]
    ids, weights = torch.tensor([m[0] for m in made]), torch.tensor([m[1] for m in made])
    return ids[:, :-1], ids[:, 1:], weights[:, 1:]


# -------------------------------------------------------------------------------------- optimizer
class Muon:
    """Momentum, then the nearest orthogonal matrix by five Newton-Schulz steps (Jordan 2024).
    Matrices of one shape are processed together. At 1.2M tokens: loss on values 2.62, with AdamW
    3.18."""
    def __init__(self, params, momentum=.95):
        self.momentum = momentum
        self.buffers = [torch.zeros_like(p) for p in params]
        self.shapes = {}
        for p, buffer in zip(params, self.buffers):
            self.shapes.setdefault(tuple(p.shape), []).append((p, buffer))

    @torch.no_grad()
    def step(self, lr):
        for (n_out, n_in), members in self.shapes.items():
            moved = []
            for p, buffer in members:
                buffer.lerp_(p.grad, 1 - self.momentum)
                moved.append(p.grad.lerp(buffer, self.momentum))
            x = torch.stack(moved)
            if n_out > n_in:
                x = x.transpose(1, 2)
            x = (x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)).bfloat16().contiguous()
            for _ in range(5):
                a = torch.bmm(x, x.transpose(1, 2))
                x = 3.4445 * x + torch.bmm(-4.7750 * a + 2.0315 * torch.bmm(a, a), x)
            if n_out > n_in:
                x = x.transpose(1, 2)
            for (p, _), direction in zip(members, x):
                p.mul_(1 - lr * MUON_DECAY)
                p.add_(direction.float(), alpha=-lr * max(1, n_out / n_in) ** .5)


def learning_rate(step, progress):
    """The share of the full learning rate."""
    return min((step + 1) / WARM_UP, 1, max(.02, (1 - progress) / DECAY))


class Run:
    """The complete state of a checkpoint."""
    def __init__(self, tokenizer, seed):
        torch.manual_seed(seed)
        self.model = Llama(Config(vocab=len(tokenizer)))
        self.random = random.Random(seed)
        self.step, self.seconds = 0, 0.
        self.matrices = [p for layer in self.model.layers for p in layer.parameters()
                         if p.ndim == 2]
        matrices = {id(p) for p in self.matrices}
        rest = [p for p in self.model.parameters() if id(p) not in matrices]
        self.muon = Muon(self.matrices)
        self.adam = torch.optim.AdamW(rest, lr=ADAM_LR, betas=(.9, .97), weight_decay=0)

    def save(self, path):
        torch.save({'model': self.model.state_dict(), 'config': asdict(self.model.c),
                    'step': self.step, 'seconds': self.seconds, 'random': self.random.getstate(),
                    'muon': self.muon.buffers, 'adam': self.adam.state_dict()}, path + '.new')
        os.replace(path + '.new', path)

    def resume(self, path):
        saved = torch.load(path)
        self.model.load_state_dict(saved['model'])
        self.adam.load_state_dict(saved['adam'])
        for buffer, old in zip(self.muon.buffers, saved['muon']):
            buffer.copy_(old)
        self.random.setstate(saved['random'])
        self.step, self.seconds = saved['step'], saved['seconds']

    def learn(self, ids, target, weight, rate):
        """One step; returns the losses of the tokens with a weight, and their weights."""
        hidden = self.model.hidden(ids, torch.Tensor.bfloat16)
        count = weight > 0
        loss, each = WeightedCrossEntropy.apply(hidden[count], self.model.emb.bfloat16(),
                                                target[count], weight[count])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.param_groups[0]['lr'] = ADAM_LR * rate
        self.adam.step()
        self.muon.step(MUON_LR * rate)
        for p in self.model.parameters():
            p.grad = None
        return each, weight[count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--minutes', type=float, default=90)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--start', help='a checkpoint whose weights to begin with')
    a = parser.parse_args()
    tokenizer = Tokenizer.load(a.tokenizer)
    run = Run(tokenizer, a.seed)
    if a.start:
        run.model.load_state_dict(torch.load(a.start)['model'])
    if os.path.exists(a.out):
        run.resume(a.out)
    started, reported, tokens, sums = time.time() - run.seconds, time.time(), 0, {}
    while True:
        run.seconds = time.time() - started
        progress = max(run.step / MAX_STEPS, run.seconds / 60 / a.minutes)
        if progress >= 1:
            break
        stage = max(progress, MIXED_FROM) if a.start else progress
        n, rows = shape(run.random, stage)
        loss, weight = run.learn(*batch(tokenizer, run.random, rows, n, stage),
                                 learning_rate(run.step, progress))
        run.step += 1
        tokens += rows * n
        with torch.no_grad():
            for name, which in (('value', weight >= 2), ('assistant', weight == 1)):
                total, count = sums.get(name, (0., 0))
                sums[name] = total + loss[which].sum().item(), count + which.sum().item()
        if run.step % 50 == 0:
            means = ' '.join(f'{k} {t / max(1, c):.3f}' for k, (t, c) in sums.items())
            speed = tokens / (time.time() - reported)
            print(f'step {run.step} row {n} progress {progress:.3f} {speed:.0f} tok/s '
                  f'loss: {means}', flush=True)
            reported, tokens, sums = time.time(), 0, {}
        if run.step % 100 == 0:
            run.save(a.out)
    run.save(a.out)


if __name__ == '__main__':
    main()
