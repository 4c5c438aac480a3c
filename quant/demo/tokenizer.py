"""Byte-level BPE as GPT-2's, with 2048 tokens: 8 specials, 256 bytes, merges.

Two digits never merge, a space and a digit may: " 48213" is " 4", "8", "2", "1", "3". To copy a
number, the model then copies a few well-known tokens, and the first digit is not hidden behind a
separate space."""
import collections
import json
import random
import sys

import regex

import generate

SPECIALS = ['<|pad|>', '<|bos|>', '<|user|>', '<|assistant|>', '<|end|>', '<|query|>',
            '<|system|>', '<|sep|>']
PAD, BOS, USER, ASSISTANT, END, QUERY, SYSTEM, SEP = range(8)
FIRST_BYTE = len(SPECIALS)
ROLES = {'user': USER, 'assistant': ASSISTANT, 'query': QUERY, 'system': SYSTEM}
VOCAB = 2048
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def replace_pair(symbols, pair, new):
    """symbols with every occurrence of the pair, from the left, replaced by the new symbol."""
    out, i = [], 0
    while i < len(symbols):
        if symbols[i:i + 2] == pair:
            out.append(new)
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        """merges: pairs of token ids in order of rank; merge i makes the id FIRST_BYTE + 256 +
        i."""
        self.merges = [list(m) for m in merges]
        self.pieces = [s.encode() for s in SPECIALS] + [bytes([i]) for i in range(256)]
        for a, b in self.merges:
            self.pieces.append(self.pieces[a] + self.pieces[b])
        self.rank = {tuple(m): i for i, m in enumerate(self.merges)}
        self.cache = {}

    def __len__(self):
        return len(self.pieces)

    def word(self, word):
        if word not in self.cache:
            ids = [FIRST_BYTE + b for b in word.encode()]
            while len(ids) > 1:
                rank, pair = min((self.rank.get(p, len(self.merges)), p) for p in zip(ids, ids[1:]))
                if rank == len(self.merges):
                    break
                ids = replace_pair(ids, list(pair), FIRST_BYTE + 256 + rank)
            self.cache[word] = ids
        return self.cache[word]

    def encode(self, text):
        return [i for word in WORDS.findall(text) for i in self.word(word)]

    def encode_chat(self, messages, answer=True):
        """The chat template: ids of (role, text) messages, and the start of an answer."""
        ids = [BOS]
        for role, text in messages:
            ids += [ROLES[role]] + self.encode(' ' + text) + [END]
        return ids + [ASSISTANT] if answer else ids

    def decode(self, ids):
        return b''.join(self.pieces[i] for i in ids).decode('utf-8', 'replace')

    def count(self, text):
        return len(self.encode(text))

    def save(self, path):
        with open(path, 'w') as f:
            json.dump({'merges': self.merges}, f)

    @staticmethod
    def load(path):
        with open(path) as f:
            return Tokenizer(json.load(f)['merges'])


def has_two_digits(piece):
    return sum(48 <= b < 58 for b in piece) > 1


def train(texts):
    """The usual greedy BPE: repeatedly merge the most frequent pair."""
    counts = collections.Counter(w for t in texts for w in WORDS.findall(t))
    words = [[FIRST_BYTE + b for b in w.encode()] for w in counts]
    times = list(counts.values())
    pieces = {FIRST_BYTE + i: bytes([i]) for i in range(256)}
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(words):
        for p in zip(word, word[1:]):
            pairs[p] += times[i]
            where[p].add(i)
    merges = []
    while FIRST_BYTE + 256 + len(merges) < VOCAB:
        best = max(pairs, key=lambda p: (pairs[p], p))
        piece = pieces[best[0]] + pieces[best[1]]
        if has_two_digits(piece):
            del pairs[best]
            continue
        new = FIRST_BYTE + 256 + len(merges)
        merges.append(best)
        pieces[new] = piece
        for i in where.pop(best):
            for p in zip(words[i], words[i][1:]):
                pairs[p] -= times[i]
            words[i] = replace_pair(words[i], list(best), new)
            for p in zip(words[i], words[i][1:]):
                pairs[p] += times[i]
                where[p].add(i)
        del pairs[best]
    return Tokenizer(merges)


if __name__ == '__main__':
    r = random.Random(7)
    texts = []
    for _ in range(3000):
        mode = r.choices(list(generate.MODES), (.26, .22, .17, .07, .13, .15))[0]
        turns = generate.conversation(r, 250, lambda t: len(t) // 4, mode).turns
        if r.random() < .1:
            turns = turns + generate.sloppy(r, turns)
        texts += [' ' + generate.plain(text) for _, text in turns]
    texts += [' ' + text for text in generate.SYSTEM * 20]
    tokenizer = train(texts)
    odd = " Zoë's café — 5%\n ok"
    assert tokenizer.decode(tokenizer.encode(odd)) == odd
    assert len(tokenizer.encode(' 48213')) == 5
    tokenizer.save(sys.argv[1])
    n_chars, n_tokens = sum(map(len, texts)), sum(map(tokenizer.count, texts))
    print(f'{len(tokenizer)} tokens, {n_chars / n_tokens:.2f} of {n_chars} characters a token')
