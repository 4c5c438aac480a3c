#!/usr/bin/env python3
"""Writes data/: small stand-ins for the public models and vectors that RETAIN_TEST_DATA holds, in
the same layout, so that a fresh clone runs every test.

    golden/*.q, *.f32    quantized blocks and their numbers, by gguf-py
    random/, golden/logits/   recipes of random models and their logits, by make_families.py
    vocabs/              vocabularies and texts with their ids, by sentencepiece and tokenizers
    malformed/           files that must be refused (bad_) or opened (ok_)

It shares nothing with the C code. Needs torch, gguf, sentencepiece and tokenizers; takes seconds:

    python3 -m venv build/venv && build/venv/bin/pip install torch gguf sentencepiece tokenizers
    build/venv/bin/python tests/golden/make_data.py [blocks] [models] [vocabularies] [malformed]
"""
import json
import struct
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
from drawn import write_recipe
from gguf import GGMLQuantizationType as T
from make_families import Config, golden_ids, make_weights, metadata, run
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

OUT = Path(__file__).parent / "data"
TEXT = [Path(p).read_text() for p in ("README.md", "CONTRIBUTING.md", "docs/DESIGN.md")]

# ---- blocks -------------------------------------------------------------------------------------

N_GOLDEN = 1024
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
          T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0],
          T.IQ4_XS: [0]}  # where a block's half precision numbers are


def random_blocks(rng, kind, n, size=0.1):
    """Any bits; only scales must be numbers."""
    block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (n // block, n_bytes), dtype=np.uint8)
    for at in SCALES[kind]:
        d = (size * rng.uniform(0.5, 1, n // block)).astype(np.float16)
        raw[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    return raw


def make_blocks():
    folder = OUT / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    x = (rng.normal(size=N_GOLDEN) * np.where(np.arange(N_GOLDEN) % 97, 1, 6)).astype(np.float32)
    x.tofile(folder / "input.f32")

    def write(name, kind, raw):
        raw.tofile(folder / f"{name}.q")
        gguf.dequantize(raw, kind).astype(np.float32).tofile(folder / f"{name}.f32")

    for kind in (T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0):
        write(kind.name.lower() + ".ref", kind, gguf.quantize(x, kind))
    for kind in SCALES:  # gguf-py quantizes to none of these
        name = kind.name.lower().replace("k", "K")
        if not (folder / f"{name}.ref.q").exists():
            write(f"{name}.ref", kind, random_blocks(rng, kind, N_GOLDEN))
        if kind in (T.Q4_0, T.Q4_1, T.Q4_K, T.Q6_K, T.Q8_0):
            write(f"{name}.rnd", kind, random_blocks(rng, kind, N_GOLDEN))


# ---- models -------------------------------------------------------------------------------------

N_POS, N_ROWS = 64, 12  # rows: of the last tokens


def make_model(name, **shape):
    c = Config("llama", pairs=True, tied=False, size=0.18, **shape)
    w, d = make_weights(c)
    write_recipe(OUT / "random" / f"{name}.model", metadata(c, name), d.tensors())
    ids = golden_ids()[:N_POS]
    logits = run(c, w, ids)[-N_ROWS:].float().numpy()
    golden = OUT / "golden" / "logits"
    (golden / f"{name}-as-f32.tokens.txt").write_text(" ".join(map(str, ids.tolist())) + "\n")
    logits.tofile(golden / f"{name}-as-f32.logits.f32")


def make_models():
    for folder in ("random", "golden/logits"):
        (OUT / folder).mkdir(parents=True, exist_ok=True)
    small = dict(n_head=2, n_kv=1, n_ff=128)
    make_model("small-f16", **small)
    make_model("small-q4_0", store="Q4_0", **small)
    make_model("small-q8_0", store="Q8_0", **small)
    # rows of 256, as K blocks need; all types that one of llama.cpp's Q4_K_M files holds
    mixed = {"token_embd": "Q6_K", "attn_v": "Q6_K", "attn_k": "Q5_0", "ffn_down": "Q8_0"}
    make_model("small-q4_k_m", store="Q4_K", kinds=mixed, n_layer=1, n_embd=256, head_dim=64, n_ff=256)


# ---- vocabularies -------------------------------------------------------------------------------

CASES = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "a", " a", "Hello world",
    " Hello world", "Hello World", " Hello World!", "Hello, world!", "hello  world", "   leading",
    "trailing   ", " (", "\n =", "' era", "it's we'll they'D I'm", "!!!!!!", "...,;:-", "3", "33",
    "333", "3333", "33333333", "1.5e-3, 0x1F", "w048 7tuijk dsdfhu", "\u00c4pfel und \u00d6l",
    "C\u1eeda Vi\u1ec7t", "\u043d\u0435\u0449\u043e \u043d\u0430 \u0431\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438",
    "\u6211\u60f3\u5728\u5bb6", "\U0001f680 up \U0001f636\u200d\U0001f32b\ufe0f", "e\u0301 and \u00e9",
    "tabs\tand\r\nlines\r\n\r\nend", "snake_case camelCase", "<|im_start|>user<|im_end|>", "</s><s>",
    "def f(x):\n    return x ** 2\n", "\u00a0no-break\u3000wide", "cache units, evicted permanently",
    TEXT[0][:700].replace("\u2581", "_"),
]
BORDER = "\n__ggml_vocab_test__\n"
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def write_vocabulary(name, model, pre, tokens, types, scores=None, merges=None, bos=None, eos=None):
    w = gguf.GGUFWriter(OUT / "vocabs" / f"{name}.gguf", "llama")
    w.add_name(name)
    w.add_tokenizer_model(model)
    if pre:
        w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    if bos is not None:
        w.add_bos_token_id(bos)
    w.add_eos_token_id(eos)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def write_cases(name, encode):
    path = str(OUT / "vocabs" / f"{name}.gguf")
    Path(path + ".inp").write_text("".join(c + BORDER for c in CASES), newline="")
    Path(path + ".out").write_text("".join("".join(f" {i}" for i in encode(c)) + "\n" for c in CASES))


def make_bpe(name, pre, splitter, specials, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = splitter
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(TEXT + CASES, trainer)
    state = json.loads(t.to_str())["model"]
    tokens = [k for k, _ in sorted(state["vocab"].items(), key=lambda kv: kv[1])]
    merges = [" ".join(m) for m in state["merges"]]
    n = len(tokens)
    write_vocabulary(name, "gpt2", pre, tokens + specials, [1] * n + [3] * len(specials), merges=merges,
                     bos=n, eos=n + len(specials) - 1)
    write_cases(name, lambda text: t.encode(text, add_special_tokens=False).ids)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(False, use_regex=False)])


def make_spm(name, specials):
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("\n".join(TEXT))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=folder + "/m", model_type="bpe", vocab_size=700,
            byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            split_digits=True, character_coverage=0.99, hard_vocab_limit=False, minloglevel=2)
        sp = sentencepiece.SentencePieceProcessor(model_file=folder + "/m.model")
    n = sp.vocab_size()
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
             for i in range(n)]
    write_vocabulary(name, "llama", None, [sp.id_to_piece(i) for i in range(n)] + specials,
                     kinds + [3] * len(specials),
                     scores=[sp.get_score(i) for i in range(n)] + [0.0] * len(specials), bos=1, eos=2)
    write_cases(name, sp.encode)


def make_vocabularies():
    (OUT / "vocabs").mkdir(exist_ok=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    chatml = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    llama3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    make_bpe("ggml-vocab-gpt-2", "gpt-2", byte_level, ["<|endoftext|>"])
    make_bpe("ggml-vocab-llama-bpe", "llama-bpe", split(LETTERS + r"\p{N}{1,3}" + REST), llama3, True)
    make_bpe("ggml-vocab-qwen2", "qwen2", split(LETTERS + r"\p{N}" + REST), chatml)
    make_bpe("vocab-smollm2", "smollm",
             pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level]), chatml)
    make_spm("ggml-vocab-llama-spm", [])
    make_spm("ggml-vocab-phi-3", ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"])


# ---- malformed files ----------------------------------------------------------------------------

def string(s):
    return struct.pack("<Q", len(s)) + s


def container(kv=(), tensors=(), data=b"", magic=b"GGUF", version=3, n_kv=None, n_tensors=None, align=32):
    """kv: (key, type, bytes); tensors: (name, dims, type, offset)."""
    head = magic + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                               len(kv) if n_kv is None else n_kv)
    for key, kind, value in kv:
        head += string(key) + struct.pack("<I", kind) + value
    for name, dims, kind, offset in tensors:
        head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return head + (bytes(-len(head) % align) + data if tensors else b"")


def make_malformed():
    U32, STRING, ARRAY, BOOL = 4, 8, 9, 7
    u32 = lambda v: struct.pack("<I", v)
    one = [(b"general.alignment", U32, u32(32))]
    name = [(b"general.name", STRING, string(b"x"))]
    a, b = (b"a", [4], 0, 0), (b"b", [8], 0, 32)
    array = lambda kind, n, rest=b"": [(b"k", ARRAY, struct.pack("<IQ", kind, n) + rest)]
    files = {
        "ok_empty": container(),
        "ok_metadata": container(name + one),
        "ok_array": container(array(U32, 2, u32(1) + u32(2))),
        "ok_tensor": container(name, [a], bytes(32)),
        "ok_tensors": container(one, [a, b], bytes(64)),
        "ok_alignment": container([(b"general.alignment", U32, u32(64))], [a, (b"b", [8], 0, 64)],
                                  bytes(128), align=64),
        "ok_version_2": container(name, version=2),
        "bad_nothing": b"",
        "bad_magic_only": b"GGUF",
        "bad_magic": container(magic=b"FUGU"),
        "bad_magic_part": b"GG",
        "bad_version_0": container(version=0),
        "bad_version_future": container(version=4000),
        "bad_version_big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "bad_header_cut": container()[:16],
        "bad_n_kv": container(n_kv=2**60),
        "bad_n_kv_one_more": container(name, n_kv=2),
        "bad_n_tensors": container(n_tensors=2**60),
        "bad_n_tensors_one_more": container(tensors=[a], data=bytes(32), n_tensors=2),
        "bad_key_cut": container(name)[:30],
        "bad_key_length": container(n_kv=1) + struct.pack("<Q", 2**63) + b"key",
        "bad_key_twice": container(name + name),
        "bad_type": container([(b"k", 99, u32(1))]),
        "bad_string_length": container([(b"k", STRING, struct.pack("<Q", 2**62) + b"x")]),
        "bad_array_length": container(array(U32, 2**61, u32(1))),
        "bad_array_type": container(array(99, 1, u32(1))),
        "bad_array_cut": container(array(U32, 3, u32(1))),
        "bad_array_of_strings": container(array(STRING, 2, string(b"x"))),
        "bad_alignment_0": container([(b"general.alignment", U32, u32(0))], [a], bytes(32)),
        "bad_alignment_13": container([(b"general.alignment", U32, u32(13))], [a], bytes(32)),
        "bad_tensor_twice": container(one, [a, (b"a", [8], 0, 32)], bytes(64)),
        "bad_tensor_name": container(one, [(b"n" * 5000, [4], 0, 0)], bytes(32)),
        "bad_tensor_dims": container(one, [(b"a", [1] * 9, 0, 0)], bytes(32)),
        "bad_tensor_shape": container(one, [(b"a", [2**63, 4], 0, 0)], bytes(32)),
        "bad_tensor_too_large": container(one, [(b"a", [2**31, 2**31], 0, 0)], bytes(32)),
        "bad_tensor_type": container(one, [(b"a", [4], 999, 0)], bytes(32)),
        "bad_tensor_row": container(one, [(b"a", [33], 2, 0)], bytes(64)),
        "bad_tensor_offset": container(one, [a, (b"b", [8], 0, 33)], bytes(96)),
        "bad_tensor_beyond": container(one, [(b"a", [4], 0, 2**40)], bytes(32)),
        "bad_tensor_overlap": container(one, [(b"a", [16], 0, 0), (b"b", [8], 0, 32)], bytes(64)),
        "bad_data_cut": container(one, [a, b], bytes(40)),
        "ok_header_only": container(one, [a]),
    }
    folder = OUT / "malformed"
    folder.mkdir(exist_ok=True)
    for key, content in files.items():
        (folder / f"{key}.gguf").write_bytes(content)


PARTS = {"blocks": make_blocks, "models": make_models, "vocabularies": make_vocabularies,
         "malformed": make_malformed}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
