#!/usr/bin/env python3
"""Figures of llama.cpp for two real models: python3 make_real.py FOLDER > real.json
Needs llama-cpp-python (its llama.cpp is the reference) and the two files of make real in FOLDER.
Logits are computed with the weights of the file as float32, float32 units and one thread; perplexity
with the file as it is, too. The text is the beginning of Pride and Prejudice (1813), in the public
domain."""
import json
import math
import os
import sys
import tempfile

import llama_cpp as L

MODELS = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
TEXTS = [
    "Hello, world!", "  two  spaces\t\ttabs\n\n\nlines", "12345 3.14159 1,000,000 0xFF",
    "Die Straße über den Fluß führt nach Köln.", "L'été, à Noël, où ça? Œuvre naïve.",
    "Привет, как дела? Ёлка.", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया",
    "你好,世界。今天天气很好。", "こんにちは世界、カタカナ", "안녕하세요 세계", "สวัสดีชาวโลก",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \u00a0\u200b", "for (int i = 0; i < n; i++) { a[i] += b[i] * 2; }",
    "<|im_start|>user <start_of_turn> <bos> </s> [INST]", "don't we'll I'M THEY'VE it's",
]
PROSE = """It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.

However little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is considered the rightful property of some one or other of their daughters.

"My dear Mr. Bennet," said his lady to him one day, "have you heard that Netherfield Park is let at last?"

Mr. Bennet replied that he had not.

"But it is," returned she; "for Mrs. Long has just been here, and she told me all about it."

Mr. Bennet made no answer.

"Do you not want to know who has taken it?" cried his wife impatiently.

"You want to tell me, and I have no objection to hearing it."

This was invitation enough.

"Why, my dear, you must know, Mrs. Long says that Netherfield is taken by a young man of large fortune from the north of England; that he came down on Monday in a chaise and four to see the place, and was so much delighted with it, that he agreed with Mr. Morris immediately; that he is to take possession before Michaelmas, and some of his servants are to be in the house by the end of next week."

"What is his name?"

"Bingley."

"Is he married or single?"

"Oh! Single, my dear, to be sure! A single man of large fortune; four or five thousand a year. What a fine thing for our girls!"

"How so? How can it affect them?"

"My dear Mr. Bennet," replied his wife, "how can you be so tiresome! You must know that I am thinking of his marrying one of them."
"""
TOP, EVERY = 5, 24  # of every 24th position


def open_model(path):
    p = L.llama_model_default_params()
    p.n_gpu_layers = 0
    model = L.llama_model_load_from_file(path.encode(), p)
    assert model, path
    return model


def tokenize(model, text):
    raw = text.encode()
    ids = (L.llama_token * (len(raw) + 8))()
    vocab = L.llama_model_get_vocab(model)
    n = L.llama_tokenize(vocab, raw, len(raw), ids, len(ids), True, False)
    assert n > 0
    return list(ids[:n])


def logits_of(model, ids):
    """Rows of logits, one for each position."""
    c = L.llama_context_default_params()
    c.n_ctx = c.n_batch = c.n_ubatch = 1024
    c.type_k = c.type_v = L.GGML_TYPE_F32
    c.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
    c.n_threads = c.n_threads_batch = 1
    ctx = L.llama_init_from_model(model, c)
    batch = L.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, t in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = t, i, 1, 1
        batch.seq_id[i][0] = 0
    assert L.llama_decode(ctx, batch) == 0
    n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    rows = []
    for i in range(len(ids)):
        rows.append(L.llama_get_logits_ith(ctx, i)[:n_vocab])
    L.llama_batch_free(batch)
    L.llama_free(ctx)
    return rows


def log_sum(row):
    top = max(row)
    return top + math.log(sum(math.exp(x - top) for x in row))


def nll(rows, ids):
    return sum(log_sum(r) - r[t] for r, t in zip(rows, ids[1:])) / (len(ids) - 1)


def as_float(path, out):
    p = L.llama_model_quantize_default_params()
    p.ftype, p.allow_requantize, p.nthread = L.LLAMA_FTYPE_ALL_F32, True, 1
    assert L.llama_model_quantize(path.encode(), out.encode(), p) == 0


def figures(path):
    model = open_model(path)
    ids = tokenize(model, PROSE)
    out = {"file": os.path.basename(path), "ids": [tokenize(model, t) for t in TEXTS],
           "nll": round(nll(logits_of(model, ids), ids), 5)}
    L.llama_model_free(model)
    with tempfile.TemporaryDirectory() as folder:
        exact = os.path.join(folder, "f32.gguf")
        as_float(path, exact)
        model = open_model(exact)
        rows = logits_of(model, ids)
        L.llama_model_free(model)
    out["nll_f32"] = round(nll(rows, ids), 5)
    out["top"] = []
    for at in range(0, len(ids), EVERY):
        best = sorted(range(len(rows[at])), key=lambda i: -rows[at][i])[:TOP]
        out["top"].append([at, log_sum(rows[at])] + [[i, round(rows[at][i], 4)] for i in best])
        out["top"][-1][1] = round(out["top"][-1][1], 4)
    return out


def main():
    L.llama_backend_init()
    found = [figures(os.path.join(sys.argv[1], m)) for m in MODELS]
    rows = ",\n ".join(json.dumps(m, separators=(",", ":")) for m in found)
    print('{"texts":%s,\n "prose":%s,\n "models":[%s]}' %
          (json.dumps(TEXTS, ensure_ascii=False), json.dumps(PROSE, ensure_ascii=False), rows))


main()
