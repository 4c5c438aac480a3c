"""Write the demo model as a GGUF file: an ordinary `llama` model that any GGUF runtime loads. Matrices
are Q4_0, norms F32, attention rows in the interleaved RoPE order."""
import argparse
import json
import struct

import numpy as np
import torch

import model as llama
from tokenizer import BOS, END, PAD, SPECIALS, Tokenizer

F32, Q4_0 = 0, 2                                                 # ggml tensor types
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9   # GGUF value types
ALIGNMENT = 32
MOSTLY_Q4_0 = 2
NORMAL, CONTROL = 1, 3                                           # token types
TEMPLATE = ("{{ bos_token }}{% for message in messages %}"
            "{{ '<|' + message['role'] + '|> ' + message['content'] + '<|end|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


# ----------------------------------------------------------------------------------- quantization
def q4_0_encode(x):
    """x [n_out, n_in] float32 -> (scales f16, codes u8 [blocks, 32]); weight = scale * (code - 8).

    ggml's encoder gives the largest value code 0. A block takes the scale with the smallest squared
    error among that one and a few close to it, at no cost at run time."""
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, 32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1) / -8
    best = np.full((len(blocks), 1), np.inf)
    scales, codes = np.zeros((len(blocks), 1), np.float16), np.full(blocks.shape, 8, np.uint8)
    for share in [1] + [i / 40 for i in range(32, 48) if i != 40]:
        scale = (largest * share).astype(np.float16)
        wide = scale.astype(np.float32)
        inverse = np.divide(1, wide, out=np.zeros_like(wide), where=wide != 0)
        code = np.clip(np.floor(blocks * inverse + 8.5), 0, 15)
        error = ((wide * (code - 8) - blocks) ** 2).sum(1, keepdims=True)
        better = error < best
        best = np.where(better, error, best)
        scales = np.where(better, scale, scales)
        codes = np.where(better, code, codes).astype(np.uint8)
    return scales, codes


def q4_0_decode(scales, codes, shape):
    return (scales.astype(np.float32) * (codes.astype(np.float32) - 8)).reshape(shape)


def q4_0_pack(scales, codes):
    """18 bytes a block: the scale, then byte j holding code j (low) and code j + 16 (high)."""
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.concatenate([scales.view(np.uint8), packed], 1).tobytes()


def float_bytes(x):
    return x.numpy().astype('<f4').tobytes()


def quantize(model):
    """Replace every matrix by its decoded Q4_0 form: the model as the runtime computes it."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.copy_(torch.from_numpy(q4_0_decode(*q4_0_encode(p.numpy()), p.shape)))
    return model


# ----------------------------------------------------------------------------------- GGUF version 3
def string(s):
    return struct.pack('<Q', len(s.encode())) + s.encode()


def value(kind, v):
    if kind == STRING:
        return string(v)
    return struct.pack({UINT32: '<I', INT32: '<i', FLOAT32: '<f', BOOL: '<?'}[kind], v)


def pad(data):
    return data + bytes(-len(data) % ALIGNMENT)


def write(path, metadata, tensors):
    """metadata: (key, kind, value) or (key, (ARRAY, kind), values); tensors: (name, ne, type,
    bytes), ne innermost first."""
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(metadata))
    for key, kind, v in metadata:
        head += string(key)
        if isinstance(kind, tuple):
            head += struct.pack('<IIQ', ARRAY, kind[1], len(v))
            head += b''.join(value(kind[1], x) for x in v)
        else:
            head += struct.pack('<I', kind) + value(kind, v)
    offset = 0
    for name, ne, kind, data in tensors:
        head += string(name) + struct.pack(f'<I{len(ne)}QIQ', len(ne), *ne, kind, offset)
        offset += len(pad(data))
    with open(path, 'wb') as f:
        f.write(pad(head) + b''.join(pad(data) for _, _, _, data in tensors))


# ------------------------------------------------------------------------------------------ files
def byte_letters():
    """GPT-2's printable character for every byte: itself if printable, else from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def tokenizer_metadata(tokenizer):
    letters = byte_letters()
    n = len(SPECIALS)
    tokens = SPECIALS + [''.join(letters[b] for b in piece) for piece in tokenizer.pieces[n:]]
    merges = [f'{tokens[a]} {tokens[b]}' for a, b in tokenizer.merges]
    return [
        ('tokenizer.ggml.model', STRING, 'gpt2'),
        ('tokenizer.ggml.pre', STRING, 'gpt-2'),
        ('tokenizer.ggml.tokens', (ARRAY, STRING), tokens),
        ('tokenizer.ggml.token_type', (ARRAY, INT32), [CONTROL] * n + [NORMAL] * (len(tokens) - n)),
        ('tokenizer.ggml.merges', (ARRAY, STRING), merges),
        ('tokenizer.ggml.bos_token_id', UINT32, BOS),
        ('tokenizer.ggml.eos_token_id', UINT32, END),
        ('tokenizer.ggml.padding_token_id', UINT32, PAD),
        ('tokenizer.ggml.add_bos_token', BOOL, True),
        ('tokenizer.ggml.add_space_prefix', BOOL, False),
        ('tokenizer.chat_template', STRING, TEMPLATE)]


def interleave(weight, n_heads):
    """Rows of a head from rotate-half order (i pairs with i + half) to neighbours (2i with 2i +
    1)."""
    n_out, n_in = weight.shape
    pairs = weight.reshape(n_heads, 2, n_out // n_heads // 2, n_in)
    return pairs.swapaxes(1, 2).reshape(n_out, n_in)


def write_base(path, model, tokenizer):
    c = model.c
    metadata = [
        ('general.architecture', STRING, 'llama'),
        ('general.name', STRING, 'retain demo'),
        ('general.license', STRING, 'mit'),
        ('general.alignment', UINT32, ALIGNMENT),
        ('general.file_type', UINT32, MOSTLY_Q4_0),
        ('general.quantization_version', UINT32, 2),
        ('general.sampling.temp', FLOAT32, .3),      # 0.8 is too much for a model this small
        ('llama.block_count', UINT32, c.n_layers),
        ('llama.context_length', UINT32, c.context),
        ('llama.embedding_length', UINT32, c.d),
        ('llama.feed_forward_length', UINT32, c.ffn),
        ('llama.attention.head_count', UINT32, c.n_heads),
        ('llama.attention.head_count_kv', UINT32, c.n_kv),
        ('llama.attention.layer_norm_rms_epsilon', FLOAT32, c.eps),
        ('llama.rope.dimension_count', UINT32, c.head_dim),
        ('llama.rope.freq_base', FLOAT32, c.theta),
        ('llama.vocab_size', UINT32, c.vocab)] + tokenizer_metadata(tokenizer)
    tensors = []

    def matrix(name, weight):
        packed = q4_0_pack(*q4_0_encode(weight))
        tensors.append((name + '.weight', weight.shape[::-1], Q4_0, packed))

    def norm(name, weight):
        tensors.append((name + '.weight', weight.shape, F32, float_bytes(weight)))

    # the factor is a power of two (16), so that both copies decode to the same numbers, times 16
    matrix('token_embd', model.emb.numpy() * c.d ** .5)
    for i, layer in enumerate(model.layers):
        blk = f'blk.{i}.'
        norm(blk + 'attn_norm', layer.attn_norm)
        matrix(blk + 'attn_q', interleave(layer.q.numpy(), c.n_heads))
        matrix(blk + 'attn_k', interleave(layer.k.numpy(), c.n_kv))
        matrix(blk + 'attn_v', layer.v.numpy())
        matrix(blk + 'attn_output', layer.out.numpy())
        norm(blk + 'ffn_norm', layer.ffn_norm)
        matrix(blk + 'ffn_gate', layer.gate.numpy())
        matrix(blk + 'ffn_up', layer.up.numpy())
        matrix(blk + 'ffn_down', layer.down.numpy())
    norm('output_norm', model.norm)
    matrix('output', model.emb.numpy())
    write(path, metadata, tensors)


def golden(model, tokenizer, prompt):
    """The expected result of a runtime with these weights: float32, full attention, greedy."""
    ids = tokenizer.encode_chat(prompt)
    out, top = [], []
    for _ in range(32):
        logits = model(torch.tensor([ids + out]))[0, -1]
        if not out:
            values, tokens = logits.topk(5)
            top = [[int(i), round(float(v), 4)] for i, v in zip(tokens, values)]
        out.append(int(logits.argmax()))
    return {'messages': prompt, 'ids': ids, 'top5': top, 'greedy': out,
            'text': tokenizer.decode(out).split('<|end|>')[0].strip()}


TOLD = [('user', "Hi, I'm Marta and I live in Lisbon."),
        ('assistant', 'Thanks, I will keep that in mind.'),
        ('user', 'My locker code is 48213.'), ('assistant', 'Noted.')]
GOLDEN = (TOLD + [('user', 'Tell me about cats.')], TOLD + [('user', 'What is my locker code?')])

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--out', required=True, help='folder')
    a = parser.parse_args()
    model, tokenizer = llama.load(a.model), Tokenizer.load(a.tokenizer)
    write_base(a.out + '/retain-demo.gguf', model, tokenizer)
    quantize(model)
    with open(a.out + '/golden.json', 'w') as f:
        json.dump([golden(model, tokenizer, prompt) for prompt in GOLDEN], f, indent=1)
