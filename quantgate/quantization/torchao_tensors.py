"""The parts of a torchao weight against the sizes that vLLM allocates.

Which class a weight is and what shares a scale stand in the file's metadata, and are compared there
(`torchao_metadata.contradictions`); the headers add the lengths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.quantization.difference import Difference, Kind
from quantgate.quantization.expected import TORCHAO_VALUES, Role, expected_tensors
from quantgate.quantization.tensor_differences import tensor_differences
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.quantization.scheme import Scheme, Sizes
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

QDATA = "_weight_qdata"


def against_torchao(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, slicing: Slicing
) -> Iterator[Difference]:
    """Another size than the witness gives, or parts whose lengths do not agree with each other.

    What is missing or too much is told by the metadata, and so is another class of tensor.
    """
    qdata, per = leaves.get(QDATA), TORCHAO_VALUES.get(scheme.storage, (0,))[0]
    weight = expected_tensors(scheme, sizes.n, sizes.k)[0]
    if qdata is None or not per or qdata[0] not in weight.dtypes or len(qdata[1]) != 2:
        return
    own = replace(sizes, n=qdata[1][0], k=qdata[1][1] * per)
    if any(a and b and a != b for a, b in ((own.n, sizes.n), (own.k, sizes.k))):
        yield Difference(
            Kind.SIZE,
            f"N x K = {sizes.n or '?'} x {sizes.k or '?'}",
            f"{own.n} x {own.k}",
            shape_outcome(weight.axes, weight.shapes[0], qdata[1], slicing),
            QDATA,
            Role.WEIGHT,
            witness=sizes.witness,
        )
        return
    for difference in tensor_differences(leaves, scheme, own, slicing):
        if difference.kind in {Kind.SHAPE, Kind.RANK}:
            yield difference
