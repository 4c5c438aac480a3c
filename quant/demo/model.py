"""A plain Llama in PyTorch: RMSNorm, RoPE (rotate-half), grouped queries, SwiGLU, tied embedding.

Trained in bfloat16 with float32 master weights. The embedding's output is multiplied by sqrt(d), so
that tied weights fit both ends; the exporter folds the factor into an untied token_embd.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 2048
    d: int = 256
    n_layers: int = 4
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 64
    ffn: int = 768
    theta: float = 50000.0
    eps: float = 1e-5
    context: int = 4608      # the longest row trained on: 4096 units, a chunk, a reserve


class WeightedCrossEntropy(torch.autograd.Function):
    """For logits hidden · embᵀ: (weighted mean, loss of every token). Their gradient is
    computed in the forward pass, in place, so that the largest matrix exists once."""
    @staticmethod
    def forward(ctx, hidden, emb, target, weight):
        z = (hidden @ emb.t()).float()
        z -= z.logsumexp(-1, keepdim=True)
        loss = -z.gather(1, target[:, None])[:, 0]
        z.exp_()
        z.scatter_add_(1, target[:, None], torch.full((len(target), 1), -1.0))
        z *= (weight / weight.sum())[:, None]
        ctx.save_for_backward(hidden, emb, z.to(hidden.dtype))
        return (loss * weight).sum() / weight.sum(), loss

    @staticmethod
    def backward(ctx, d_out, _):
        hidden, emb, z = ctx.saved_tensors
        return (z @ emb) * d_out, (z.t() @ hidden) * d_out, None, None


def rms(x, weight, eps):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def swiglu(gate, up):
    return F.silu(gate) * up


# ------------------------------------------------------------------------------------------ model
def rope_tables(n, head_dim, theta):
    frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angle = torch.arange(n, dtype=torch.float32)[:, None] * frequency
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rope(x, cos, sin):
    """x [..., n, head_dim], tables [n, head_dim]; element i pairs with i + head_dim/2."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        deep = 2 * c.n_layers      # residual outputs start smaller: the stream keeps its size

        def matrix(n_out, n_in, shrink=1):
            return nn.Parameter(torch.randn(n_out, n_in) * (n_in * shrink) ** -.5)

        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(c.d)), nn.Parameter(torch.ones(c.d))
        self.q = matrix(c.n_heads * c.head_dim, c.d)
        self.k = matrix(c.n_kv * c.head_dim, c.d)
        self.v = matrix(c.n_kv * c.head_dim, c.d)
        self.out = matrix(c.d, c.n_heads * c.head_dim, deep)
        self.gate, self.up = matrix(c.ffn, c.d), matrix(c.ffn, c.d)
        self.down = matrix(c.d, c.ffn, deep)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c = config
        self.emb = nn.Parameter(torch.randn(config.vocab, config.d) * config.d ** -.5)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layers))
        self.norm = nn.Parameter(torch.ones(config.d))

    def hidden(self, ids, cast=lambda p: p):
        """ids [rows, n] -> normed hidden states [rows, n, d]. cast converts master weights to the
        type to compute with."""
        c, (rows, n) = self.c, ids.shape
        group = c.n_heads // c.n_kv
        x = F.embedding(ids, cast(self.emb)) * math.sqrt(c.d)
        cos, sin = (t.to(x.dtype) for t in rope_tables(n, c.head_dim, c.theta))
        for i, layer in enumerate(self.layers):
            h = rms(x, cast(layer.attn_norm), c.eps)
            q, k, v = (F.linear(h, cast(w)) for w in (layer.q, layer.k, layer.v))
            qh = rope(q.view(rows, n, c.n_heads, c.head_dim).transpose(1, 2), cos, sin)
            qh = qh * c.head_dim ** -.5
            kh = rope(k.view(rows, n, c.n_kv, c.head_dim).transpose(1, 2), cos, sin)
            vh = v.view(rows, n, c.n_kv, c.head_dim).transpose(1, 2)
            o = F.scaled_dot_product_attention(qh.reshape(rows * c.n_kv, group, n, c.head_dim),
                                               kh.reshape(rows * c.n_kv, 1, n, c.head_dim),
                                               vh.reshape(rows * c.n_kv, 1, n, c.head_dim),
                                               is_causal=True, scale=1)
            o = o.view(rows, c.n_heads, n, c.head_dim).transpose(1, 2).reshape(rows, n, -1)
            x = x + F.linear(o, cast(layer.out))
            h = rms(x, cast(layer.ffn_norm), c.eps)
            x = x + F.linear(swiglu(F.linear(h, cast(layer.gate)), F.linear(h, cast(layer.up))),
                             cast(layer.down))
        return rms(x, cast(self.norm), c.eps)

    def forward(self, ids, cast=lambda p: p):
        return F.linear(self.hidden(ids, cast), cast(self.emb))


def load(path):
    checkpoint = torch.load(path)
    model = Llama(Config(**checkpoint['config']))
    model.load_state_dict(checkpoint['model'])
    return model.requires_grad_(False)
