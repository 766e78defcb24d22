# SPDX-License-Identifier: Apache-2.0
"""The proof: 53 operators in the families that models are made of."""

from __future__ import annotations

from kope_tvm.bench.output import publish
from kope_tvm.bench.run import run_suite
from kope_tvm.bench.wanted import Wanted

OPERATORS = (
    # Products: square, wide, odd, a vector, tall and skinny, with a bias, as PyTorch keeps weights.
    "op:matmul:m=256,n=256,k=256,dtype=float32",
    "op:matmul:m=64,n=1024,k=256,dtype=float32",
    "op:matmul:m=127,n=255,k=333,dtype=float32",
    "op:matmul:m=1,n=2048,k=1024,dtype=float32",
    "op:matmul:m=2048,n=16,k=256,dtype=float32",
    "op:dense:m=32,n=768,k=384,dtype=float32",
    "op:linear:m=64,n=512,k=512,dtype=float32",
    "op:batch_matmul:b=8,m=128,n=64,k=128,dtype=float32",
    "op:batch_matmul:b=6,m=99,n=99,k=64,dtype=float32",
    # Eight and four bits.
    "op:matmul_int8:m=256,n=256,k=256,dtype=int8",
    "op:matmul_int8:m=1,n=2048,k=1024,dtype=int8",
    "op:conv2d_int8:n=1,ci=32,h=28,w=28,co=32,kernel=3,stride=1,pad=1,dtype=uint8",
    "op:matmul_nbits:m=1,n=2048,k=2048,dtype=float32",
    "op:matmul_nbits:m=16,n=512,k=1024,dtype=float32",
    "op:matmul_q4_0:m=1,n=1024,k=1024,dtype=float32",
    # Convolutions.
    "op:conv2d:n=1,ci=32,h=56,w=56,co=32,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv2d:n=1,ci=64,h=28,w=28,co=256,kernel=1,stride=1,pad=0,dtype=float32",
    "op:conv2d:n=1,ci=3,h=112,w=112,co=32,kernel=7,stride=2,pad=3,dtype=float32",
    "op:conv2d:n=1,ci=128,h=14,w=14,co=128,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv2d:n=1,ci=31,h=37,w=41,co=45,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv2d_bias_relu:n=1,ci=64,h=28,w=28,co=64,kernel=3,stride=1,pad=1,dtype=float32",
    "op:dilated_conv2d:n=1,ci=32,h=28,w=28,co=32,kernel=3,stride=1,pad=2,dilation=2,dtype=float32",
    "op:group_conv2d:n=1,ci=64,h=28,w=28,co=64,kernel=3,stride=1,pad=1,groups=4,dtype=float32",
    "op:conv1d:n=1,ci=80,w=1500,co=64,kernel=3,stride=1,pad=1,dtype=float32",
    "op:conv_transpose2d:n=1,ci=32,h=14,w=14,co=32,kernel=4,stride=2,pad=1,dtype=float32",
    "op:depthwise_conv2d:n=1,ci=32,h=112,w=112,kernel=3,stride=2,pad=1,dtype=float32",
    "op:depthwise_conv2d:n=1,ci=96,h=56,w=56,kernel=5,stride=1,pad=2,dtype=float32",
    # Pooling.
    "op:max_pool2d:n=1,ci=64,h=112,w=112,kernel=3,stride=2,pad=1,dtype=float32",
    "op:avg_pool2d:n=1,ci=128,h=56,w=56,kernel=3,stride=1,pad=1,dtype=float32",
    "op:global_avg_pool:n=1,ci=512,h=28,w=28,dtype=float32",
    # Softmax and norms.
    "op:softmax:m=512,n=1024,dtype=float32",
    "op:softmax:m=16,n=32000,dtype=float32",
    "op:log_softmax:m=256,n=1001,dtype=float32",
    "op:layernorm:m=512,n=768,dtype=float32",
    "op:rmsnorm:m=128,n=4096,dtype=float32",
    "op:group_norm:n=1,ci=128,h=32,w=32,groups=32,dtype=float32",
    # Reductions.
    "op:reduce_sum:m=1024,n=1024,dtype=float32",
    "op:column_mean:m=1024,n=1024,dtype=float32",
    "op:argmax:m=1024,n=1000,dtype=float32",
    # Attention, and what goes with it.
    "op:attention:h=8,m=128,n=128,d=64,dtype=float32",
    "op:decode_attention:g=4,r=8,n=1024,d=64,dtype=float32",
    "op:rope:s=512,h=16,d=64,dtype=float32",
    "op:rwkv_mix:t=4,h=32,d=64,dtype=float32",
    # Elementwise chains and layouts.
    "op:gelu:m=512,n=3072,dtype=float32",
    "op:silu_mul:m=128,n=2816,dtype=float32",
    "op:transpose:m=512,n=3072,dtype=float32",
    # By index.
    "op:gather:v=8192,m=1024,n=512,dtype=float32",
    "op:scatter_add:v=128,m=256,n=128,dtype=float32",
    "op:top_k:m=1024,n=128,k=4,dtype=float32",
    "op:resize_bilinear:n=1,ci=32,h=64,w=64,scale=2,dtype=float32",
    "op:nms:n=1024,dtype=float32",
    # Stencils and scans.
    "op:heat2d:h=1024,w=1024,dtype=float32",
    "op:cumsum:m=256,n=1024,dtype=float32",
)
_PEERS = ("metaschedule", "onnxruntime")


def run(wanted: Wanted) -> None:
    """Tune with kope and its peers, time all in turns, print what it comes to."""
    publish(run_suite(OPERATORS, wanted, _PEERS), wanted)
