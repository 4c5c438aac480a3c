#!/usr/bin/env python3
"""Writes kvpress.txt: which cache units NVIDIA's kvpress keeps of a prompt that is read whole.

The tiny Llama of families/llama.model runs in PyTorch in double precision; kvpress compresses its
cache after the prompt, as test_kvpress.c evicts once. Nothing here is shared with the C code.
A line holds: kvpress's name, the policy that test_kvpress.c compares, the budget, the layer, the
head, and the positions that stay. Needs torch, transformers, gguf and kvpress 0.5.5.

    tests/golden/make_kvpress.py        overwrites tests/golden/kvpress.txt
"""
import sys
import types
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

for name in ('datasets', 'fire'):             # kvpress imports them for presses that are not used here
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules['datasets'].load_dataset = None
import kvpress  # noqa: E402

HERE = Path(__file__).resolve().parent
N, BUDGET = 192, 48


def tensors_of(path):
    reader = gguf.GGUFReader(path)
    facts = {k: v.contents() for k, v in reader.fields.items() if not k.startswith('tokenizer')}
    return facts, {t.name: gguf.dequantize(t.data, t.tensor_type) for t in reader.tensors}


def load(path, dtype=torch.float64):
    """A Llama from a GGUF file. Rows of q and k are in the order of llama.cpp, pair by pair."""
    facts, tensors = tensors_of(path)
    fact = lambda name: facts['llama.' + name]
    heads, kv = fact('attention.head_count'), fact('attention.head_count_kv')
    dim = facts.get('llama.attention.key_length', fact('embedding_length') // heads)
    config = transformers.LlamaConfig(
        vocab_size=tensors['token_embd.weight'].shape[0], hidden_size=fact('embedding_length'),
        intermediate_size=fact('feed_forward_length'), num_hidden_layers=fact('block_count'),
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=dim,
        rms_norm_eps=fact('attention.layer_norm_rms_epsilon'),
        rope_parameters={'rope_type': 'default', 'rope_theta': fact('rope.freq_base')},
        max_position_embeddings=fact('context_length'), tie_word_embeddings='output.weight' not in tensors,
        attention_bias='blk.0.attn_q.bias' in tensors, mlp_bias='blk.0.ffn_gate.bias' in tensors,
        attn_implementation='sdpa')

    def halves(x, n):
        return x.reshape(n, dim // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)

    names = {'token_embd': 'model.embed_tokens', 'output_norm': 'model.norm', 'output': 'lm_head'}
    parts = {'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm',
             'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
             'attn_output': 'self_attn.o_proj', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
             'ffn_down': 'mlp.down_proj'}
    state = {}
    for name, x in tensors.items():
        stem, kind = name.rsplit('.', 1)
        if stem.startswith('blk.'):
            _, layer, part = stem.split('.')
            if part not in parts:
                continue
            x = halves(x, heads) if part == 'attn_q' else halves(x, kv) if part == 'attn_k' else x
            stem = f'model.layers.{layer}.{parts[part]}'
        elif stem in names:
            stem = names[stem]
        else:
            continue
        state[f'{stem}.{kind}'] = torch.tensor(np.ascontiguousarray(x), dtype=dtype)
    model = transformers.LlamaForCausalLM(config).to(dtype)
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert all(m == 'lm_head.weight' for m in missing), missing
    model.tie_weights()
    return model.eval()


def kept(model, press, ids):
    """Positions that stay, [layer][head], recognised by their keys."""
    full, cache = transformers.DynamicCache(), transformers.DynamicCache()
    with torch.no_grad():
        model(ids, past_key_values=full)
        with press(model):
            model(ids, past_key_values=cache, cache_position=torch.arange(ids.shape[1]))
    out = []
    for layer in range(len(full.layers)):
        all_keys, keys = full.layers[layer].keys[0], cache.layers[layer].keys[0]
        for head in range(len(all_keys)):
            rows = {tuple(k.tolist()): p for p, k in enumerate(all_keys[head])}
            assert len(rows) == ids.shape[1]
            nearest = torch.cdist(keys[head], all_keys[head]).argmin(1)
            out.append(sorted(nearest.tolist()))
    return out


def presses(ratio):
    """kvpress's name, retain's policy with its keys, the press."""
    return [
        ('KeyDiff', 'keydiff:sinks=0,stabilizers=0', kvpress.KeyDiffPress(ratio)),
        ('StreamingLLM', 'sink', kvpress.StreamingLLMPress(ratio, n_sink=4)),
    ]


def main():
    path = HERE.parent.parent / 'build/golden/families/llama.gguf'
    model = load(path)
    vocab, heads = model.config.vocab_size, model.config.num_key_value_heads
    ids = torch.tensor([[(i * 2654435761 + 12345) % 2**32 // 65536 % vocab for i in range(N)]])
    lines = ['# kvpress 0.5.5: name, policy, budget, layer, head, positions that stay; see make_kvpress.py',
             f'# {N} tokens: (i * 2654435761 + 12345) mod 2^32 / 65536 mod {vocab}']
    for name, policy, press in presses(1 - BUDGET / N):
        for i, positions in enumerate(kept(model, press, ids)):
            lines.append(f'{name} {policy} {BUDGET} {i // heads} {i % heads} '
                         + ' '.join(map(str, positions)))
    (HERE / 'kvpress.txt').write_text('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
