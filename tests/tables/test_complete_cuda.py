"""Everything that is known to vary, to be refused or to change route on CUDA has its rule, with the right verdicts.

The lists are our own, one line each: torch's refusals (every alert's name), its kernels with floating-point atomics,
its branches on the deterministic flag, the entries of its page, and what neither alerts nor is listed.
"""

# ruff: noqa: E501  (a claim a line reads as the table that it is)

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.tables.claims import FACTS, LETTERS, SETTINGS, Claim, check, rule_for, siblings, tagged_ops, verdicts
from tracer.names import Backend, Verdict
from tracer.tables.conditions import BoundRule
from tracer.tables.loading import load_table
from tracer.tables.versions import release

CUDA = Backend.CUDA
INTEGRAL = {"dtype": "int64"}
SET = {"cublas_workspace": "set"}
OVERLAP = {"shape.windows_overlap": True, "shape.unit_stride_unpadded": False}
UNEVEN = {"shape.divides_evenly": False, "shape.channels_last": False}
OTHER_SIZE = {"shape.same_size": False}
TWICE = {"shape.meets_at_most_twice": True}
THRICE = {"shape.meets_thrice": True}
MASK = {"arg.output_mask0": True}
MANY = {"index.is_mask": False, "index.one_value": False}
WHOLE = {"shape.scan_is_whole": True}
COO = {"layout": "sparse_coo", "operands.both_sparse": False}
CSR = {"layout": "sparse_csr", "operands.both_sparse": False}
NEW_PAD = "NNR NDD NDD NDD"
BLAS = "CCR CCR DDD DDD"

ALERTS = [
    Claim("max_unpooling2d_forward_out", "aten.max_unpool2d", "cuda-max-unpool", "CCR"),
    Claim("max_unpooling3d_forward_out", "aten.max_unpool3d", "cuda-max-unpool", "CCR"),
    Claim("put_", "aten.put_", "cuda-put", "CCR", {"arg.accumulate": False, **MANY}),
    Claim("put_", "aten.put", "cuda-put", "NNR", {"arg.accumulate": True, **MANY}),
    Claim("put_", "aten.put_", "cuda-put", "DDR", {"arg.accumulate": True, **INTEGRAL}),
    Claim("put_", "aten.put_", "cuda-put", "DDR", {"arg.accumulate": False, "index.one_value": True}),
    Claim("quantized_resize_cpu_", "aten.resize_", "cuda-resize", "CCC CCR CCR CCR", {"dtype": "quantized", "shape.grows": True}),
    Claim("adaptive_max_pool2d_backward_cuda", "aten.adaptive_max_pool2d_backward", "cuda-adaptive-max-pool2d-backward", "NNR", UNEVEN),
    Claim("adaptive_avg_pool2d_backward_cuda", "aten._adaptive_avg_pool2d_backward", "cuda-adaptive-avg-pool-backward", "NNR", UNEVEN),
    Claim("adaptive_avg_pool3d_backward_cuda", "aten._adaptive_avg_pool3d_backward", "cuda-adaptive-avg-pool3d-backward", "NNR", UNEVEN),
    Claim("adaptive_avg_pool3d_backward_out_cuda", "aten.adaptive_avg_pool3d_backward.grad_input", "cuda-adaptive-avg-pool3d-backward", "NNR", UNEVEN),
    Claim("avg_pool3d_backward_cuda", "aten.avg_pool3d_backward", "cuda-avg-pool3d-backward", "NNR", OVERLAP),
    Claim("max_pool3d_with_indices_backward_cuda", "aten.max_pool3d_with_indices_backward", "cuda-max-pool3d-backward", "NNR", OVERLAP),
    Claim("max_pool3d_with_indices_backward_out_cuda", "aten.max_pool3d_with_indices_backward.grad_input", "cuda-max-pool3d-backward", "NNR", OVERLAP),
    Claim("fractional_max_pool2d_backward_cuda", "aten.fractional_max_pool2d_backward", "cuda-fractional-max-pool-backward", "NNR", OVERLAP),
    Claim("fractional_max_pool3d_backward_cuda", "aten.fractional_max_pool3d_backward", "cuda-fractional-max-pool-backward", "NNR", OVERLAP),
    Claim("fractional_max_pool3d_backward_out_cuda", "aten.fractional_max_pool3d_backward.grad_input", "cuda-fractional-max-pool-backward", "NNR", OVERLAP),
    Claim("upsample_linear1d_backward_out_cuda", "aten.upsample_linear1d_backward", "cuda-upsample-linear1d-backward", "NNR", OTHER_SIZE),
    Claim("upsample_bilinear2d_backward_out_cuda", "aten.upsample_bilinear2d_backward", "cuda-upsample-bilinear2d-backward", "NNR NDD NDD NDD", OTHER_SIZE),
    Claim("upsample_bicubic2d_backward_out_cuda", "aten.upsample_bicubic2d_backward", "cuda-upsample-bicubic2d-backward", "NNR NNR NNR NDD", OTHER_SIZE),
    Claim("upsample_trilinear3d_backward_out_cuda", "aten.upsample_trilinear3d_backward", "cuda-upsample-trilinear3d-backward", "NNR NNR NDD NDD", OTHER_SIZE),
    Claim("upsample_bilinear2d_aa_backward_out_cuda", "aten._upsample_bilinear2d_aa_backward", "cuda-upsample-antialias-backward", "NNR"),
    Claim("upsample_bicubic2d_aa_backward_out_cuda", "aten._upsample_bicubic2d_aa_backward", "cuda-upsample-antialias-backward", "NNR"),
    Claim("ctc_loss_backward_gpu", "aten._ctc_loss_backward", "cuda-ctc-loss-backward", "NNR"),
    Claim("ctc_loss_backward_gpu", "aten._ctc_loss_backward.Tensor", "cuda-ctc-loss-backward", "NNR"),
    Claim("nll_loss2d_forward_out_cuda_template", "aten.nll_loss2d_forward", "cuda-nll-loss2d", "NNR", {"arg.reduction": "mean"}),
    Claim("nll_loss2d_forward_out_cuda_template", "aten.nll_loss2d_forward", "cuda-nll-loss2d", "DDD", {"arg.reduction": "none"}),
    Claim("reflection_pad1d_backward_out_cuda", "aten.reflection_pad1d_backward", "cuda-reflection-pad-backward", "NNR", THRICE),
    Claim("reflection_pad3d_backward_out_cuda", "aten.reflection_pad3d_backward", "cuda-reflection-pad-backward", "NNR", THRICE),
    Claim("reflection_pad2d_backward_cuda", "aten.reflection_pad2d_backward", "cuda-reflection-pad2d-backward", "NNR NNR NDD NDD", THRICE),
    Claim("reflection_pad2d_backward_out_cuda", "aten.reflection_pad2d_backward.grad_input", "cuda-reflection-pad2d-backward", "NNR NNR NDD NDD", THRICE),
    Claim("replication_pad1d_backward_cuda", "aten.replication_pad1d_backward", "cuda-replication-pad-backward", NEW_PAD, THRICE),
    Claim("replication_pad2d_backward_cuda", "aten.replication_pad2d_backward", "cuda-replication-pad2d-backward", NEW_PAD, THRICE),
    Claim("replication_pad2d_backward_out_cuda", "aten.replication_pad2d_backward.grad_input", "cuda-replication-pad2d-backward", NEW_PAD, THRICE),
    Claim("replication_pad3d_backward_cuda", "aten.replication_pad3d_backward", "cuda-replication-pad-backward", NEW_PAD, THRICE),
    Claim("replication_pad3d_backward_out_cuda", "aten.replication_pad3d_backward.grad_input", "cuda-replication-pad-backward", NEW_PAD, THRICE),
    Claim("grid_sampler_2d_backward_cuda", "aten.grid_sampler_2d_backward", "cuda-grid-sample-2d-backward", "NNR", MASK),
    Claim("grid_sampler_3d_backward_cuda", "aten.grid_sampler_3d_backward", "cuda-grid-sample-3d-backward", "NNR", MASK),
    Claim("cudnn_grid_sampler_backward", "aten.cudnn_grid_sampler_backward", "cuda-cudnn-grid-sample-backward", "NNN NNN NNR NNR"),
    Claim("embedding_bag_backward_cuda_max", "aten._embedding_bag_backward", "cuda-embedding-bag-backward", "NNR", {"arg.mode": "max"}),
    Claim("embedding_bag_backward_cuda_max", "aten._embedding_bag_dense_backward", "cuda-embedding-bag-backward", "NNR", {"arg.mode": "max"}),
    Claim("index_reduce_cuda", "aten.index_reduce", "cuda-index-reduce", "NNR", {"arg.reduce": "prod"}),
    Claim("index_reduce_cuda", "aten.index_reduce_", "cuda-index-reduce", "DDR", {"arg.reduce": "amax"}),
    Claim("cumsum_cuda_kernel", "aten.cumsum", "cuda-cumsum", NEW_PAD, WHOLE),
    Claim("cumsum_cuda_kernel", "aten.cumsum_", "cuda-cumsum", "DDR DDD DDD DDD", {"shape.scan_is_whole": False}),
    Claim("scatter_add_cuda_kernel", "aten.scatter_add", "cuda-scatter-add", "NDD"),
    Claim("scatter_reduce_cuda", "aten.scatter_reduce.two", "cuda-scatter-reduce", "DDR DDD DDD DDD", {"arg.reduce": "amax"}),
    Claim("scatter_reduce_cuda_sum_", "aten.scatter_reduce.two", "cuda-scatter-reduce", NEW_PAD, {"arg.reduce": "sum"}),
    Claim("scatter_reduce_cuda_mean_", "aten.scatter_reduce_.two", "cuda-scatter-reduce", NEW_PAD, {"arg.reduce": "mean"}),
    Claim("scatter_reduce_cuda_prod_", "aten.scatter_reduce.two", "cuda-scatter-reduce", "NNR", {"arg.reduce": "prod"}),
    Claim("scatter_reduce_cuda_prod_", "aten.scatter_reduce.two", "cuda-scatter-reduce", "DDR", {"arg.reduce": "prod", **INTEGRAL}),
    Claim("scatter_reduce_cuda_kernel", "aten.scatter.reduce", "cuda-scatter-reduce-argument", "NNN NNR NNR NNR", {"arg.reduce": "multiply"}),
    Claim("scatter_reduce_cuda_kernel", "aten.scatter_.reduce", "cuda-scatter-reduce-argument", "DDD DDD DDR DDR", {"arg.reduce": "add", **INTEGRAL}),
    Claim("scatter_cuda_", "aten.scatter.src", "cuda-scatter-src", "CCC CDD CDD CDD"),
    Claim("_bincount_cuda", "aten.bincount", "cuda-bincount", "NNR", {"given.weights": True}),
    Claim("_bincount_cuda", "aten.bincount", "cuda-bincount", "DDR DDD DDD DDD", {"given.weights": False}),
    Claim("_histc_cuda", "aten.histc", "cuda-histc", "DDR DDR DDD DDD", INTEGRAL),
    Claim("_histc_cuda with floating point input", "aten.histc", "cuda-histc", "DDR", {"shape.numel_gt_16777216": False}),
    Claim("_histc_cuda with floating point input", "aten.histc", "cuda-histc", "CCR", {"shape.numel_gt_16777216": True}),
    Claim("median CUDA with indices output", "aten.median.dim", "cuda-median-indices", "CCR"),
    Claim("median CUDA with indices output", "aten.nanmedian.dim", "cuda-median-indices", "CCR"),
    Claim("kthvalue CUDA", "aten.kthvalue", "cuda-kthvalue", "CCR CCR DDD DDD"),
    *(Claim("cuBLAS", f"aten.{op}", "cuda-cublas", BLAS) for op in ("mm", "addmm", "addmm_", "baddbmm", "mv", "addmv")),
    *(Claim("cuBLAS", f"aten.{op}", "cuda-cublas", "DDD", SET) for op in ("mm", "addmm", "baddbmm", "mv", "linear")),
    Claim("cuBLAS, a row within", "aten.addmm", "cuda-cublas", "CCR CCC DDD DDD", {"operands.row_within": True}),
    Claim("cuBLAS", "aten.bmm", "cuda-bmm", BLAS),
    Claim("cuBLAS in a convolution", "aten.convolution", "cuda-convolution", BLAS, {"cudnn_enabled": False}),
    *(
        Claim("cuBLAS, unchecked", f"aten.{op}", "cuda-cublas-unchecked", "CCC CCC DDD DDD")
        for op in ("dot", "vdot", "_int_mm", "_scaled_mm", "_addmm_activation")
    ),
]  # fmt: skip

#: Alerts of torch's CUDA sources that no op reaches: a function without an entry in the dispatcher.
UNREACHABLE = {"adaptive_avg_pool2d_backward_out_cuda"}

#: Every family of torch's own CUDA kernels that contains floating-point atomics (or a lock), with what they come to.
KERNELS = [
    Claim("_scatter_gather_elementwise_kernel", "aten.scatter_add_", "cuda-scatter-add", "NDD"),
    Claim("vectorized_scatter_add_kernel", "aten.scatter_add", "cuda-scatter-add", "NDD"),
    Claim("vectorized_scatter_kernel", "aten.scatter_reduce.two", "cuda-scatter-reduce", NEW_PAD, {"arg.reduce": "sum"}),
    Claim("tma_scatter_kernel", "aten.scatter_reduce_.two", "cuda-scatter-reduce", NEW_PAD, {"arg.reduce": "sum"}),
    Claim("index_elementwise_kernel", "aten.put", "cuda-put", "NNR", {"arg.accumulate": True, **MANY}),
    Claim("indexFuncSmallIndex", "aten.index_add", "cuda-index-add", "NDD"),
    Claim("indexFuncLargeIndex", "aten.index_add_", "cuda-index-add", "NDD"),
    Claim("indexFuncLargeIndex", "aten.index_reduce", "cuda-index-reduce", "NNR", {"arg.reduce": "mean"}),
    Claim("kernelHistogram1D", "aten.bincount", "cuda-bincount", "NNR", {"given.weights": True}),
    Claim("reflection_pad1d_backward_out_kernel", "aten.reflection_pad1d_backward", "cuda-reflection-pad-backward", "NNR", THRICE),
    Claim("reflection_pad1d_backward_flat", "aten.reflection_pad1d_backward", "cuda-reflection-pad-backward", "DDR", {"shape.meets_thrice": False}),
    Claim("reflection_pad2d_backward_out_kernel", "aten.reflection_pad2d_backward", "cuda-reflection-pad2d-backward", "DDR DDR DDD DDD", {"shape.meets_thrice": False}),
    Claim("reflection_pad3d_backward_out_kernel", "aten.reflection_pad3d_backward", "cuda-reflection-pad-backward", "NNR", THRICE),
    Claim("replication_pad_backward_kernel", "aten.replication_pad1d_backward", "cuda-replication-pad-backward", "DDR DDD DDD DDD", {"shape.meets_thrice": False}),
    Claim("atomic_adaptive_average_gradinput", "aten._adaptive_avg_pool2d_backward", "cuda-adaptive-avg-pool-backward", "DDR", {"shape.divides_evenly": False, "shape.channels_last": True}),
    Claim("atomicadaptiveaveragegradinput", "aten._adaptive_avg_pool3d_backward", "cuda-adaptive-avg-pool3d-backward", "DDR", {"shape.divides_evenly": True}),
    Claim("atomicadaptivemaxgradinput (2-D)", "aten.adaptive_max_pool2d_backward", "cuda-adaptive-max-pool2d-backward", "DDR", {"shape.divides_evenly": True}),
    Claim("atomicadaptivemaxgradinput (3-D)", "aten.adaptive_max_pool3d_backward", "cuda-adaptive-max-pool3d-backward", "NNN", UNEVEN),
    Claim("atomicadaptivemaxgradinput (3-D)", "aten.adaptive_max_pool3d_backward", "cuda-adaptive-max-pool3d-backward", "DDD", {"shape.divides_evenly": True}),
    Claim("avg_pool3d_cuda_update_grad_input_atomic", "aten.avg_pool3d_backward", "cuda-avg-pool3d-backward", "DDR", {"shape.windows_overlap": True, "shape.unit_stride_unpadded": True}),
    Claim("avg_pool3d_cuda_update_grad_input_atomic", "aten.avg_pool3d_backward", "cuda-avg-pool3d-backward", "DDR", {"shape.windows_overlap": False}),
    Claim("max_pool3d_with_indices_backward_single_out_frame", "aten.max_pool3d_with_indices_backward", "cuda-max-pool3d-backward", "DDR", {"shape.windows_overlap": False}),
    Claim("fractional_max_pool2d_backward_out_cuda_frame", "aten.fractional_max_pool2d_backward", "cuda-fractional-max-pool-backward", "DDR", {"shape.windows_overlap": False}),
    Claim("fractional_max_pool3d_backward_out_frame", "aten.fractional_max_pool3d_backward", "cuda-fractional-max-pool-backward", "NNR", OVERLAP),
    Claim("upsample_linear1d_out_frame_backward", "aten.upsample_linear1d_backward", "cuda-upsample-linear1d-backward", "DDR", {"shape.same_size": True}),
    Claim("atomic_adaptive_average_gradinput", "aten._adaptive_avg_pool2d_backward", "cuda-adaptive-avg-pool-backward", "DDR", {**UNEVEN, **TWICE}),
    Claim("atomicadaptivemaxgradinput (3-D)", "aten.adaptive_max_pool3d_backward", "cuda-adaptive-max-pool3d-backward", "DDD", {**UNEVEN, **TWICE}),
    Claim("avg_pool3d_cuda_update_grad_input_atomic", "aten.avg_pool3d_backward", "cuda-avg-pool3d-backward", "DDR", {**OVERLAP, **TWICE}),
    Claim("max_pool3d_with_indices_backward_single_out_frame", "aten.max_pool3d_with_indices_backward", "cuda-max-pool3d-backward", "DDR", {**OVERLAP, **TWICE}),
    Claim("fractional_max_pool2d_backward_out_cuda_frame", "aten.fractional_max_pool2d_backward", "cuda-fractional-max-pool-backward", "DDR", {**OVERLAP, **TWICE}),
    Claim("upsample_linear1d_out_frame_backward", "aten.upsample_linear1d_backward", "cuda-upsample-linear1d-backward", "DDR", {**OTHER_SIZE, **TWICE}),
    Claim("upsample_bilinear2d_backward_out_frame", "aten.upsample_bilinear2d_backward", "cuda-upsample-bilinear2d-backward", "DDR DDD DDD DDD", {**OTHER_SIZE, **TWICE}),
    Claim("_scatter_gather_elementwise_kernel", "aten.scatter_add", "cuda-scatter-add", "DDD", {"index.adds_one_number": True}),
    Claim("indexFuncSmallIndex", "aten.index_add", "cuda-index-add", "DDD", {"index.adds_one_number": True}),
    Claim("upsample_linear1d_out_frame_backward_unrolled", "aten.upsample_linear1d_backward", "cuda-upsample-linear1d-backward", "NNR", OTHER_SIZE),
    Claim("upsample_bilinear2d_backward_out_frame", "aten.upsample_bilinear2d_backward", "cuda-upsample-bilinear2d-backward", "DDR DDD DDD DDD", {"shape.same_size": True}),
    Claim("upsample_bilinear2d_backward_nhwc_out_frame", "aten.upsample_bilinear2d_backward", "cuda-upsample-bilinear2d-backward", NEW_PAD, OTHER_SIZE),
    Claim("upsample_bicubic2d_backward_out_frame", "aten.upsample_bicubic2d_backward", "cuda-upsample-bicubic2d-backward", "DDR DDR DDR DDD", {"shape.same_size": True}),
    Claim("upsample_trilinear3d_backward_out_frame", "aten.upsample_trilinear3d_backward", "cuda-upsample-trilinear3d-backward", "DDR DDR DDD DDD", {"shape.same_size": True}),
    Claim("upsample_gen2d_aa_backward_out_frame", "aten._upsample_bicubic2d_aa_backward", "cuda-upsample-antialias-backward", "NNR"),
    Claim("grid_sampler_2d_backward_kernel", "aten.grid_sampler_2d_backward", "cuda-grid-sample-2d-backward", "DDR", {"arg.output_mask0": False}),
    Claim("grid_sampler_3d_backward_kernel", "aten.grid_sampler_3d_backward", "cuda-grid-sample-3d-backward", "DDR", {"arg.output_mask0": False}),
    Claim("grid_sampler_3d_bicubic_backward_kernel", "aten.grid_sampler_3d_backward", "cuda-grid-sample-3d-backward", "NNR", MASK),
    Claim("nll_loss2d_forward_kernel", "aten.nll_loss2d_forward.output", "cuda-nll-loss2d", "NNR", {"arg.reduction": "sum"}),
    Claim("ctc_loss_backward_collect_nonblank_gpu_kernel", "aten._ctc_loss_backward", "cuda-ctc-loss-backward", "NNR"),
    Claim("EmbeddingBag_accGradParametersKernel_max", "aten._embedding_bag_backward", "cuda-embedding-bag-backward", "DDD", {"arg.mode": "sum"}),
    Claim("compute_grad_weight_atomic_accumulate", "aten.embedding_dense_backward", "cuda-embedding-backward", "DDD DDD NDD NDD", {"shape.rows_repeat_long": True}),
    Claim("compute_grad_weight_atomic_accumulate", "aten.embedding_dense_backward", "cuda-embedding-backward", "DDD", {"shape.rows_repeat_long": False}),
    Claim("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "aten._flash_attention_backward", "cuda-flash-attention-backward", "NNU NND NND NND"),
    Claim("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "aten._scaled_dot_product_flash_attention_backward", "cuda-flash-attention-backward", "NNU NND NND NND"),
    Claim("fmha_cutlassB", "aten._efficient_attention_backward", "cuda-efficient-attention-backward", "NNU NND NND NND"),
    Claim("fmha_cutlassB", "aten._scaled_dot_product_efficient_attention_backward", "cuda-efficient-attention-backward", "NNU NND NND NND"),
]  # fmt: skip

#: Places that take another implementation in deterministic mode, with what runs then.
BRANCHES = [
    Claim("index_put.cuda", "aten.index_put_", "cuda-index-put", "CDD", {"arg.accumulate": False, **MANY}),
    Claim("index_put.cuda", "aten._unsafe_index_put", "cuda-index-put", "DDD", {"arg.accumulate": True}),
    Claim("index_put.cuda", "aten._index_put_impl_", "cuda-index-put", "DDD", {"arg.accumulate": False, "index.is_mask": False, "index.one_value": True}),
    Claim("index_put.quantized_cuda", "aten.index_put_", "cuda-index-put", "CDD", {"arg.accumulate": False, "dtype": "quantized", **MANY}),
    Claim("index_copy.cuda", "aten.index_copy", "cuda-index-copy", "CDD", {"index.one_value": False}),
    Claim("index_add.cuda", "aten.index_add", "cuda-index-add", "DDD", INTEGRAL),
    Claim("scatter_add", "aten.scatter_add_", "cuda-scatter-add", "DDD", INTEGRAL),
    Claim("scatter.src", "aten.scatter_.src", "cuda-scatter-src", "DDD", {"backward.selects": True}),
    Claim("scatter.reduce(add)", "aten.scatter.reduce", "cuda-scatter-reduce-argument", "NNN NDD NDD NDD", {"arg.reduce": "add"}),
    Claim("scatter_reduce.two(sum,mean)", "aten.scatter_reduce.two", "cuda-scatter-reduce", "DDR DDD DDD DDD", {"arg.reduce": "mean", **INTEGRAL}),
    Claim("scatter.value", "aten.scatter_.value", "cuda-scatter-value", "DDD"),
    Claim("scatter.value", "aten.scatter.value_reduce", "cuda-scatter-value", "DDD"),
    Claim("cumsum.cuda", "aten.cumsum", "cuda-cumsum", "DDD", INTEGRAL),
    Claim("conv.deterministic_flag", "aten.convolution_backward", "cuda-convolution", "NDD"),
    Claim("conv.deterministic_flag", "aten.convolution", "cuda-convolution", "DDD", {"cudnn_deterministic": True}),
    Claim("conv.deterministic_flag", "aten.cudnn_convolution", "cuda-convolution", "NNN", {"cudnn_benchmark": True}),
    Claim("cudnn_convolution_relu", "aten.cudnn_convolution_relu", "cuda-fused-convolution", "NNN"),
    Claim("cudnn_convolution_relu", "aten.cudnn_convolution_add_relu", "cuda-fused-convolution", "NNN"),
    Claim("sparse_bmm.cuda", "aten.bmm", "cuda-bmm", "NDD", COO),
    Claim("sdpa.cudnn_bwd", "aten._cudnn_attention_backward", "cuda-cudnn-attention-backward", "NNU NND NND NND"),
    Claim("sdpa.cudnn_select", "aten._scaled_dot_product_cudnn_attention_backward", "cuda-cudnn-attention-backward", "NNU NND NND NND"),
    Claim("sdpa.math", "aten._scaled_dot_product_attention_math", "cuda-attention-dropout", "DDD", {"arg.dropout": False}),
    Claim("sdpa.fa3", "aten._flash_attention_forward", "cuda-attention-dropout", "DDD", {"arg.dropout": False}),
    Claim("scatter_add.native_override", "aten.scatter_add", "cuda-scatter-add", "NDD", {"dtype": "bfloat16"}),
    Claim("F.interpolate", "aten.upsample_bilinear2d", "cuda-plain-forward", "DDD"),
    Claim("F.interpolate", "aten.upsample_trilinear3d", "cuda-plain-forward", "DDD"),
    Claim("F.interpolate", "aten.upsample_bicubic2d", "cuda-plain-forward", "DDD"),
    Claim("F.pad", "aten.replication_pad1d", "cuda-plain-forward", "DDD"),
    Claim("F.max_pool3d", "aten.max_pool3d_with_indices", "cuda-plain-forward", "DDD"),
    Claim("empty.out", "aten.empty.out", "cuda-empty", "DDD"),
    Claim("topk.cutedsl", "aten.topk", "cuda-topk-ties", "DDD DDD CDD CDD", {"arg.largest": True, "arg.sorted": True, "shape.topk_radix": True}),
    Claim("topk.aot", "aten.topk", "cuda-topk-ties", "DDD DDD DDD CDD", {"dtype": "bfloat16", "arg.largest": True, "arg.sorted": True, "shape.topk_radix": True}),
    Claim("topk.aot", "aten.topk", "cuda-topk-ties", "DDD", {"arg.largest": True, "arg.sorted": True, "shape.topk_radix": False}),
    Claim("empty.cuda", "aten.empty.memory_format", "cuda-empty", "DDD"),
    Claim("empty_strided.cuda", "aten.empty_strided", "cuda-empty", "DDD"),
    Claim("resize_.cuda", "aten.resize_", "cuda-resize", "CCC CDD CDD CDD", {"shape.grows": True}),
    Claim("resize_.cuda", "aten.resize_", "cuda-resize", "CCC", {"shape.grows": True, "fill_uninitialized_memory": False}),
    Claim("resize_.cuda", "aten.resize_as_", "cuda-resize", "DDD", {"shape.grows": False}),
    Claim("c10d.nccl", "c10d.allreduce_", "cuda-all-reduce", "CCC CCC CDD CDD"),
    Claim("c10d.nccl", "c10d.reduce_scatter_", "cuda-all-reduce", "DDD", {"nccl_nvls": "excluded"}),
    Claim("c10d.nccl", "_c10d_functional.all_reduce", "cuda-functional-all-reduce", "CCC CCC CDD CDD", {"arg.reduce_op": "sum"}),
    Claim("c10d.nccl", "_c10d_functional.reduce_scatter_tensor", "cuda-functional-all-reduce", "DDD", {"arg.reduce_op": "max"}),
]  # fmt: skip

#: What entries of torch's page leave out: ``documents/test_torch_page`` holds the entries themselves.
DOCUMENTED = [
    Claim("torch.nn.Conv2d", "aten.convolution", "cuda-convolution", "NDD"),
    *(
        Claim("forward of what the page lists", f"aten.{op}", "cuda-plain-forward", "DDD")
        for op in ("gather", "index_select", "repeat_interleave.Tensor", "embedding", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "fractional_max_pool2d", "fractional_max_pool3d", "upsample_linear1d", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d", "grid_sampler_2d", "grid_sampler_3d")
    ),
    Claim("torch.nn.NLLLoss on (N, C)", "aten.nll_loss_forward", "cuda-no-float-atomics", "DDD"),
    Claim("torch.nn.CTCLoss by cuDNN", "aten._cudnn_ctc_loss", "cuda-cudnn-ctc-loss", "DDD", {"arg.deterministic": True}),
    Claim("torch.nn.CTCLoss forward", "aten._ctc_loss", "cuda-no-float-atomics", "DDD"),
    Claim("interpolate(mode='nearest') (backward)", "aten.upsample_nearest2d_backward", "cuda-no-float-atomics", "DDD"),
]  # fmt: skip

#: What varies, or is often said to, with neither an alert nor an entry on the page.
UNDOCUMENTED = [
    Claim("one-dimensional scan", "aten.cumprod", "cuda-cumprod", "NNN", WHOLE),
    Claim("one-dimensional scan", "aten.logcumsumexp", "cuda-cumprod", "NNN", WHOLE),
    Claim("scan of rows", "aten.cumprod_", "cuda-cumprod", "DDD", {"shape.scan_is_whole": False}),
    *(Claim("sparse by dense", f"aten.{op}", "cuda-cublas", "NNN", kind) for op in ("mm", "addmm") for kind in (COO, CSR)),
    Claim("sparse by dense", "aten._sparse_mm", "cuda-sparse-mm", "NNN", COO),
    Claim("sparse by dense", "aten._sparse_addmm", "cuda-sparse-mm", "NNN", COO),
    Claim("sparse by vector", "aten.mv", "cuda-cublas", "NNN", CSR),
    Claim("sparse by dense, batched, compressed", "aten.bmm", "cuda-bmm", "NNN", CSR),
    Claim("sampled product", "aten.sparse_sampled_addmm", "cuda-sparse-sampled-addmm", "UUU"),
    Claim("sparse by sparse", "aten.mm", "cuda-cublas", "DDD", {"layout": "sparse_csr", "operands.both_sparse": True}),
    Claim("sparse by sparse", "aten._sparse_sparse_matmul", "cuda-sparse-coalesce", "DDD"),
    Claim("coalesce", "aten._coalesce", "cuda-sparse-coalesce", "DDD"),
    Claim("semi-structured", "aten._cslt_sparse_mm", "cuda-cusparselt", "DDD"),
    Claim("semi-structured", "aten._sparse_semi_structured_mm", "cuda-low-precision-products", "DDD"),
    Claim("low precision", "aten._grouped_mm", "cuda-low-precision-products", "DDD"),
    Claim("low precision", "aten._weight_int8pack_mm", "cuda-low-precision-products", "DDD"),
    Claim("recurrent", "aten._cudnn_rnn", "cuda-rnn", "NNN", {"arg.dropout": False}),
    Claim("recurrent", "aten._cudnn_rnn", "cuda-rnn", "DDD", {"arg.dropout": False, **SET}),
    Claim("recurrent", "aten._cudnn_rnn", "cuda-rnn", "SSS", {"arg.dropout": True, **SET}),
    Claim("recurrent", "aten._cudnn_rnn_backward", "cuda-rnn-backward", "NNN"),
    Claim("recurrent", "aten._thnn_fused_gru_cell_backward", "cuda-fused-rnn-cell", "DDD"),
    Claim("recurrent", "aten._thnn_fused_lstm_cell", "cuda-fused-rnn-cell", "DDD"),
    Claim("cuDNN's other CTC algorithm", "aten._cudnn_ctc_loss.Tensor", "cuda-cudnn-ctc-loss", "NNN", {"arg.deterministic": False}),
    Claim("switch reductions", "symm_mem.multimem_all_reduce_", "cuda-symmetric-memory-multimem", "CCC"),
    Claim("rank by rank", "symm_mem.one_shot_all_reduce", "cuda-symmetric-memory", "DDD"),
    Claim("movement", "c10d._allgather_base_", "cuda-collective-copy", "DDD"),
    Claim("movement", "_c10d_functional.wait_tensor", "cuda-collective-copy", "DDD"),
    Claim("integers", "c10d.allreduce_", "cuda-all-reduce", "DDD", INTEGRAL),
    *(
        Claim("ties and orders", f"aten.{op}", "cuda-orders", "DDD")
        for op in ("sort", "sort.stable", "argsort", "_unique2", "unique_dim", "mode", "max.dim", "argmin", "cummax", "nonzero")
    ),
    *(
        Claim("factorisation", f"aten.{op}", "cuda-linalg", "DDD")
        for op in ("_linalg_eigh", "_linalg_svd", "linalg_qr", "linalg_lstsq", "linalg_cholesky_ex", "_linalg_solve_ex")
    ),
    *(
        Claim("optimizer", f"aten.{op}", "cuda-foreach", "DDD")
        for op in ("_foreach_norm.Scalar", "_foreach_addcdiv_.ScalarList", "_foreach_lerp_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_amp_foreach_non_finite_check_and_unscale_")
    ),
    *(
        Claim("normalisation", f"aten.{op}", "cuda-batch-norm", "DDD")
        for op in ("native_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm", "cudnn_batch_norm_backward")
    ),
    *(
        Claim("read down to the machine code", f"aten.{op}", "cuda-no-float-atomics", "DDD")
        for op in ("_cdist_backward", "_pdist_backward", "_prelu_kernel_backward", "native_layer_norm_backward", "_fused_rms_norm_backward", "native_group_norm_backward", "_segment_reduce_backward", "masked_scatter", "col2im", "unfold_backward", "avg_pool2d_backward", "native_dropout_backward")
    ),
    Claim("max_pool2d in eager mode", "aten.max_pool2d_with_indices_backward", "cuda-max-pool2d-backward", "DDD"),
]  # fmt: skip

#: What came to light when CUDA builds of torch were run without a GPU.
DISPATCHED = [
    *(
        Claim("no dimension", f"aten.{op}", f"cuda-{rule}", verdicts, {"shape.is_scalar": True, **facts})
        for op, rule, verdicts, facts in (
            ("index_add", "index-add", "NRR", {}),
            ("index_add_", "index-add", "DRR", INTEGRAL),
            ("index_copy", "index-copy", "CRR", {"index.one_value": False}),
            ("scatter_add", "scatter-add", "NRR", {}),
            ("scatter_add_", "scatter-add", "DRR DRR DDD DDD", INTEGRAL),
            ("scatter.src", "scatter-src", "CCC CRR CRR CRR", {}),
            ("scatter_.src", "scatter-src", "DDD DRR DRR DRR", {"backward.selects": True}),
            ("scatter.reduce", "scatter-reduce-argument", "DDD DRR DDR DDR", {"arg.reduce": "add", **INTEGRAL}),
            ("scatter_reduce.two", "scatter-reduce", "NNR NRR NRR NRR", {"arg.reduce": "mean"}),
            ("scatter_reduce.two", "scatter-reduce", "DDR DRR DDD DDD", {"arg.reduce": "sum", **INTEGRAL}),
            ("scatter_reduce.two", "scatter-reduce", "DDR DDD DDD DDD", {"arg.reduce": "amax"}),
        )
    ),
    *(
        Claim("called directly", f"aten.{op}_backward", f"cuda-{rule}-backward", verdicts, {"forward.direct": True, **facts})
        for op, rule, verdicts, facts in (
            ("replication_pad1d", "replication-pad", "NNR", THRICE),
            ("replication_pad2d", "replication-pad2d", "NNR", THRICE),
            ("upsample_bilinear2d", "upsample-bilinear2d", "NNR", OTHER_SIZE),
            ("upsample_trilinear3d", "upsample-trilinear3d", "NNR", OTHER_SIZE),
            ("upsample_bicubic2d", "upsample-bicubic2d", "NNR", OTHER_SIZE),
        )
    ),
    Claim("with indices", "aten.max_pool3d_with_indices_backward", "cuda-max-pool3d-backward", "NNR NNR NDD NDD", {"forward.returns_indices": True, **OVERLAP}),
    Claim("cumsum_cuda_kernel", "aten.multinomial", "cuda-multinomial", "NNR NSS NSS NSS", {"draw.cumulates": True, **WHOLE}),
    Claim("cumsum_cuda_kernel", "aten.multinomial", "cuda-multinomial", "SSR SSS SSS SSS", {"draw.cumulates": True, "shape.scan_is_whole": False}),
    Claim("cumsum_cuda_kernel", "aten.multinomial", "cuda-multinomial", "SSS"),
    Claim("nothing to scan", "aten.cumsum", "cuda-cumsum", "DDD", {"shape.no_elements": True, "shape.scan_is_whole": False}),
    Claim("nothing to scatter", "aten.scatter_reduce.two", "cuda-scatter-reduce", "NND", {"arg.reduce": "prod", "shape.no_elements": True}),
    Claim("_bincount_cuda", "aten.bincount", "cuda-bincount", "DDR", {"given.weights": True, "operands.integral_weights": True}),
    Claim("no kernel", "aten.histogram.bin_ct", "cuda-histogram", "RRR"),
    Claim("nothing to multiply", "aten.mm", "cuda-cublas", "DDD", {"shape.no_elements": True}),
    Claim("cuBLAS in a dilated convolution", "aten.convolution", "cuda-convolution", "NCR NCR NDD NDD", {"conv.leaves_cudnn": True}),
    Claim("cuBLAS in a dilated convolution", "aten.convolution", "cuda-convolution", "NDD", {"conv.leaves_cudnn": True, **SET}),
    Claim("cuBLAS in a convolution", "aten.convolution", "cuda-convolution", "CCR CCR DDD DDD", {"conv.without_cudnn": True}),
    Claim("cuBLAS in a convolution", "aten.convolution", "cuda-convolution", "DDD", {"conv.without_cudnn": True, **SET}),
    Claim("conv_depthwise2d_backward_kernel", "aten.convolution_backward", "cuda-convolution", "DDD", {"conv.own_depthwise": True}),
    Claim("conv_depthwise2d_forward_kernel", "aten.convolution", "cuda-convolution", "DDD", {"conv.own_depthwise": True, "cudnn_benchmark": True}),
    Claim("conv_depthwise2d_forward_kernel", "aten.convolution", "cuda-convolution", "DDD", {"conv.own_depthwise": True, "cudnn_enabled": False}),
    Claim("add_out_dense_sparse_cuda", "aten.add_.Tensor", "cuda-sparse-onto-dense", "NDD", {"operands.uncoalesced": True}),
    Claim("add_out_dense_sparse_cuda", "aten._to_dense", "cuda-sparse-onto-dense", "DDD", {"operands.uncoalesced": True, **INTEGRAL}),
    Claim("add_out_dense_sparse_cuda", "aten.add.Tensor", "cuda-sparse-onto-dense", "DDD"),
    *(Claim("cuBLAS", f"aten.{op}", "cuda-cublas", BLAS) for op in ("_trilinear", "linalg_matrix_exp")),
    *(Claim("cuBLAS", f"aten.{op}", "cuda-cublas", BLAS) for op in ("affine_grid_generator", "_euclidean_dist", "conv_tbc")),
    *(Claim("cuBLAS, unchecked", f"aten.{op}", "cuda-cublas-unchecked", "CCC CCC DDD DDD") for op in ("linalg_lu_solve", "linalg_solve_triangular", "linalg_pinv.atol_rtol_tensor")),
    *(Claim("cuFFT", f"aten.{op}", "cuda-fft", "DDD") for op in ("_fft_r2c", "_fft_c2c", "_fft_c2r")),
    *(Claim("elementwise_kernel", f"aten.{op}", "cuda-in-place", "DDD") for op in ("sigmoid_.default", "tanh_.default", "fill_.Tensor")),
    *(Claim("cuBLAS", f"aten.{op}", "cuda-cublas", BLAS) for op in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")),
]  # fmt: skip

#: What single releases refuse, which the four that a claim speaks of leave out: op, facts, release and verdict of
#: deterministic mode, the workspace not set.
IN_BETWEEN = [
    ("aten.convolution", {"conv.leaves_cudnn": True, "conv.pads_output_widely": True}, "2.8", "R"),
    ("aten.convolution", {"conv.leaves_cudnn": True, "conv.pads_output_widely": True}, "2.9", "R"),
    ("aten.convolution", {"conv.leaves_cudnn": True, "conv.pads_output_widely": True}, "2.10", "D"),
    ("aten.convolution", {"conv.leaves_cudnn": True, "conv.pads_output_widely": True, **SET}, "2.9", "D"),
    ("aten.convolution", {"conv.leaves_cudnn": True}, "2.9", "D"),
    ("aten._to_copy", {"call.makes_half_complex": True}, "2.5", "R"),
    ("aten._to_copy", {"call.makes_half_complex": True}, "2.6", "D"),
    ("aten._to_copy", {"call.makes_half_complex": True, "fill_uninitialized_memory": False}, "2.5", "D"),
    ("aten._to_copy", {}, "2.5", "D"),
    *(
        (f"aten.replication_pad{n}d_backward", {"dtype": dtype, **THRICE}, version, verdict)
        for n in (1, 2, 3)
        for dtype, version, verdict in (("complex64", "2.4", "R"), ("complex64", "2.5", "D"), ("float32", "2.4", "D"))
    ),
]


@pytest.mark.parametrize(("op", "facts", "version", "verdict"), IN_BETWEEN)
def test_what_single_releases_refuse(op: str, facts: dict[str, Any], version: str, verdict: str) -> None:
    settings = {**SETTINGS, **{key: value for key, value in facts.items() if key in SETTINGS}}
    bound = BoundRule(rule_for(CUDA, op), release(version), {**settings, "deterministic_mode": "on"})
    assert LETTERS[bound.decide({**FACTS, **facts}).verdict] == verdict


CLAIMS = [*ALERTS, *KERNELS, *BRANCHES, *DOCUMENTED, *UNDOCUMENTED, *DISPATCHED]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_table_says_what_is_known(claim: Claim) -> None:
    check(CUDA, claim)


def test_every_alert_and_every_kernel_is_counted() -> None:
    """The numbers of distinct names in torch's CUDA sources and machine code; cuBLAS's messages count as one."""
    named = {claim.name for claim in ALERTS if not claim.name.startswith("cuBLAS")}
    assert len(named | UNREACHABLE) == 50
    assert len({claim.name for claim in KERNELS}) == 37


# ------------------------------------------------------------------------------------------------ routes


def test_every_route_of_deterministic_mode_exists() -> None:
    routes = {case.route.partition("(")[0] for rule in load_table(CUDA).rule for case in rule.case} - {""}
    assert len(routes) > 4
    for name in routes:
        found: Any = torch.ops if name.startswith("aten.") else torch
        for part in name.removeprefix("torch.").split("."):
            found = getattr(found, part)


def test_only_the_route_that_must_be_asked_for_stands_beside_a_refusal() -> None:
    beside = {
        rule.id for rule in load_table(CUDA).rule for case in rule.case if case.route and case.verdict is Verdict.RAISES
    }
    assert beside == {"cuda-max-pool3d-backward"}


# ---------------------------------------------------------------------------------------- random numbers

#: Tagged as drawing random numbers, with what they do instead.
DRAWS_NOTHING = {
    "aten._nested_tensor_softmax_with_shape": "D",  # a plain softmax
    "aten._cudnn_attention_backward": "N",  # replays the forward's mask from its saved state
    "aten._scaled_dot_product_cudnn_attention_backward": "N",
    "aten._scaled_dot_product_efficient_attention_backward": "N",
}
#: On devices other than CUDA.
FOREIGN = {"aten._scaled_dot_product_flash_attention_for_cpu"}


def packet_of(op: Any) -> str:
    return str(op).rpartition(".")[0]


@pytest.mark.parametrize("op", [op for op in tagged_ops() if packet_of(op) not in FOREIGN])
def test_every_tagged_op_is_seeded_where_it_draws_and_deterministic_where_it_does_not(op: Any) -> None:
    packet = packet_of(op)
    rule = rule_for(CUDA, str(op))
    drawing = {"arg.dropout": True, "arg.training": True, **SET}
    if packet in DRAWS_NOTHING:
        assert verdicts(rule, drawing)[-3] == DRAWS_NOTHING[packet]
        return
    assert verdicts(rule, drawing) == "SSS"
    asks = {key for case in rule.case for key in case.when} & {"arg.dropout", "arg.training"}
    assert verdicts(rule, {"arg.dropout": False, "arg.training": False, **SET}) == ("DDD" if asks else "SSS")


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        *((f"aten._philox_{kind}", "SSS") for kind in ("uniform", "uniform_", "normal", "normal_")),
        ("aten._triton_multi_head_attention", "DDD"),
        ("aten._sobol_engine_draw", "DDD"),
    ],
)
def test_untagged_ops_that_look_random_have_a_rule(op: str, expected: str) -> None:
    assert verdicts(rule_for(CUDA, op), {}) == expected


ALLOCATIONS = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided empty_quantized _empty_affine_quantized
    _empty_per_channel_affine_quantized _resize_output_ resize_as_sparse_ sparse_resize_ set_
"""


def test_a_plain_allocation_is_no_finding() -> None:
    assert {verdicts(rule_for(CUDA, f"aten.{op}"), {}) for op in ALLOCATIONS.split()} == {"DDD"}


# ------------------------------------------------------------------------------------- torch's own labels

#: By rule, the entries of torch's test database whose gradients it allows to vary (``F`` is ``nn.functional``); without
#: a rule, those for which the machine code shows no reason (torch's list is a superset).
TOLERATED = {
    "cuda-cublas": "addmm addr F.linear_cross_entropy F.linear linalg.cond linalg.multi_dot",
    "cuda-scatter-add": "cummax cummin gather take_along_dim",
    "cuda-reflection-pad-backward": "stft",
    "cuda-adaptive-avg-pool-backward": "F.adaptive_avg_pool1d F.adaptive_avg_pool2d",
    "cuda-adaptive-avg-pool3d-backward": "F.adaptive_avg_pool3d",
    "cuda-adaptive-max-pool2d-backward": "F.adaptive_max_pool1d F.adaptive_max_pool2d",
    "cuda-adaptive-max-pool3d-backward": "F.adaptive_max_pool3d",
    "cuda-no-float-atomics": "F.avg_pool1d F.upsample_nearest",
    "cuda-avg-pool3d-backward": "F.avg_pool3d",
    "": "F.binary_cross_entropy_with_logits",
    "cuda-convolution": "F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d F.conv1d F.conv2d F.conv3d",
    "cuda-replication-pad-backward": "F.pad",
    "cuda-upsample-bilinear2d-backward": "F.interpolate F.upsample_bilinear",
    "cuda-upsample-antialias-backward": "_upsample_bilinear2d_aa",
    "cuda-fractional-max-pool-backward": "F.fractional_max_pool2d F.fractional_max_pool3d",
    "cuda-max-pool3d-backward": "F.max_pool3d",
    "cuda-linalg": "pinverse",
    "cuda-index-copy": "index_copy",
    "cuda-index-add": "index_select index_add",
    "cuda-index-reduce": "index_reduce",
    "cuda-embedding-bag-backward": "F.embedding_bag",
    "cuda-grid-sample-2d-backward": "F.grid_sample grid_sampler_2d",
    "cuda-grid-sample-3d-backward": "grid_sampler_3d",
    "cuda-cumprod": "prod",
}


def test_what_torch_tolerates_in_its_own_tests_has_a_rule() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    tolerated = {info.name for info in op_db if getattr(info, "gradcheck_nondet_tol", 0) > 0}
    assert tolerated <= {name.replace("F.", "nn.functional.") for names in TOLERATED.values() for name in names.split()}
    assert set(TOLERATED) - {""} <= {rule.id for rule in load_table(CUDA).rule}


@pytest.mark.parametrize("backend", [Backend.CPU, CUDA], ids=str)
def test_both_spellings_of_an_op_share_a_rule(backend: Backend) -> None:
    """Autograd takes the functional spelling under a dispatch mode where it takes the in-place one without."""
    held = load_table(backend)
    apart = []
    for rule in held.rule:
        for op in (op for op in rule.ops if op.count(".") == 1):
            for other in siblings(op):
                found = held.find(f"{other}.default")
                if found is not rule:
                    apart.append((op, other))
    assert apart == []
