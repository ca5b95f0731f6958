"""Second list: pooling, padding, resizing, sampling, convolutions, losses of images and sequences."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.evidence.compiled.making import ROWS, program, rows


@program
def mirrored_border_varies() -> None:
    @torch.compile(backend="aot_eager")
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.pad(images, (2, 2, 2, 2), mode="reflect").sin()  # varies: cuda

    step(rows(2, 3, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def mirrored_border_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.pad(images, (2, 2, 2, 2), mode="reflect").sin()

    step(rows(2, 3, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def repeated_border_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.pad(images, (2, 2, 2, 2), mode="replicate").sin()  # varies: cuda

    step(rows(2, 3, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def repeated_border_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.pad(images, (2, 2, 2, 2), mode="constant", value=1.0).sin()

    step(rows(2, 3, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def uneven_mean_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(images, 4).exp()  # varies: cuda

    step(rows(2, 3, 10, 10).requires_grad_()).backward(torch.ones(2, 3, 4, 4))


@program
def uneven_mean_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(images, 5).exp()  # ten rows in five: no window shares a number with another

    step(rows(2, 3, 10, 10).requires_grad_()).backward(torch.ones(2, 3, 5, 5))


@program
def uneven_maximum_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_max_pool2d(images, 4).exp()  # varies: cuda

    step(rows(2, 3, 10, 10).requires_grad_()).backward(torch.ones(2, 3, 4, 4))


@program
def uneven_maximum_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_max_pool2d(images, 4).exp()

    step(rows(2, 3, 10, 10))


@program
def overlapping_maximum_varies() -> None:
    @torch.compile
    def step(volumes: torch.Tensor) -> torch.Tensor:
        return F.max_pool3d(volumes, 3, stride=1).exp()  # varies: cuda

    step(rows(1, 2, 8, 8, 8).requires_grad_()).backward(torch.ones(1, 2, 6, 6, 6))


@program
def overlapping_maximum_clean() -> None:
    @torch.compile
    def step(volumes: torch.Tensor) -> torch.Tensor:
        return F.max_pool3d(volumes, 2, stride=2).exp()

    step(rows(1, 2, 8, 8, 8).requires_grad_()).backward(torch.ones(1, 2, 4, 4, 4))


@program
def overlapping_mean_varies() -> None:
    @torch.compile(backend="aot_eager")
    def step(volumes: torch.Tensor) -> torch.Tensor:
        return F.avg_pool3d(volumes, 3, stride=2).exp()  # varies: cuda

    step(rows(1, 2, 9, 9, 9).requires_grad_()).backward(torch.ones(1, 2, 4, 4, 4))


@program
def overlapping_mean_clean() -> None:
    @torch.compile
    def step(volumes: torch.Tensor) -> torch.Tensor:
        return F.avg_pool3d(volumes, 3, stride=2).exp()

    step(rows(1, 2, 9, 9, 9).requires_grad_()).backward(torch.ones(1, 2, 4, 4, 4))


@program
def cubic_varies() -> None:
    @torch.compile(backend="eager")
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.interpolate(images, size=(20, 20), mode="bicubic").sin()  # varies: cuda

    step(rows(2, 3, 16, 16).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def cubic_clean() -> None:
    @torch.compile(backend="eager")
    def step(images: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return F.interpolate(images, size=(20, 20), mode="bicubic") * scale

    step(rows(2, 3, 16, 16), rows(2, 3, 20, 20).requires_grad_()).backward(torch.ones(2, 3, 20, 20))


@program
def warped_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(images, grid, align_corners=False).sin()  # varies: cuda

    step(rows(2, 3, 8, 8).requires_grad_(), rows(2, 8, 8, 2)).backward(torch.ones(2, 3, 8, 8))


@program
def warped_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(images, grid, align_corners=False).sin()

    step(rows(2, 3, 8, 8), rows(2, 8, 8, 2).requires_grad_()).backward(torch.ones(2, 3, 8, 8))


@program
def folded_varies() -> None:
    @torch.compile
    def step(columns: torch.Tensor) -> torch.Tensor:
        return F.fold(columns.sin(), (34, 34), 3)  # varies: cuda

    step(rows(8, 27, 1024))


@program
def folded_clean() -> None:
    @torch.compile(backend="aot_eager")
    def step(columns: torch.Tensor) -> torch.Tensor:
        return F.fold(columns.sin(), (34, 34), 3)

    step(rows(8, 27, 1024))


@program
def pixel_loss_varies() -> None:
    @torch.compile(backend="aot_eager")
    def step(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(scores, labels)  # varies: cuda

    step(rows(4, 5, 32, 32), torch.randint(0, 5, (4, 32, 32)))


@program
def pixel_loss_clean() -> None:
    @torch.compile(backend="aot_eager")
    def step(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(scores, labels, reduction="none")

    step(rows(4, 5, 32, 32), torch.randint(0, 5, (4, 32, 32)))


@program
def transcript_varies() -> None:
    lengths, sizes = torch.full((4,), 400), torch.full((4,), 6)

    @torch.compile(backend="aot_eager")
    def step(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(scores, labels, lengths, sizes, reduction="none")  # varies: cuda

    step(rows(400, 4, 7).log_softmax(2).requires_grad_(), torch.randint(1, 7, (4, 6))).backward(torch.ones(4))


@program
def transcript_clean() -> None:
    lengths, sizes = torch.full((4,), 400), torch.full((4,), 6)

    @torch.compile(backend="aot_eager")
    def step(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(scores, labels, lengths, sizes, reduction="none")

    step(rows(400, 4, 7).log_softmax(2), torch.randint(1, 7, (4, 6)))


@program
def filtered_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(images, weight).relu()  # varies: cuda

    step(rows(2, 4, 16, 16).requires_grad_(), rows(4, 4, 3, 3).requires_grad_()).backward(torch.ones(2, 4, 14, 14))


@program
def filtered_clean() -> None:
    @torch.compile
    def step(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(images, weight).relu()

    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        images, weight = rows(2, 4, 16, 16).requires_grad_(), rows(4, 4, 3, 3).requires_grad_()
        step(images, weight).backward(torch.ones(2, 4, 14, 14))


@program
def running_total_varies() -> None:
    @torch.compile(backend="eager")
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.cumsum(0) * 2  # varies: cuda

    step(rows(ROWS))


@program
def running_total_clean() -> None:
    @torch.compile(backend="eager")
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.cumsum(0) * 2

    step(torch.randint(0, 9, (ROWS,)))


@program
def middle_varies() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle, where = values.median(dim=1)  # varies: cuda
        return middle * 2, where + 1

    step(rows().round())


@program
def middle_clean() -> None:
    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        middle = values.median()
        return middle * 2

    step(rows().round())


@program
def flat_maximum_varies() -> None:
    @torch.compile
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(images, 3, stride=1).exp()  # varies: cuda

    step(rows(2, 3, 12, 12).requires_grad_()).backward(torch.ones(2, 3, 10, 10))


@program
def flat_maximum_clean() -> None:
    @torch.compile(backend="aot_eager")
    def step(images: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(images, 3, stride=1).exp()

    step(rows(2, 3, 12, 12).requires_grad_()).backward(torch.ones(2, 3, 10, 10))
