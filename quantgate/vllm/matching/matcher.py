"""One checkpoint in one release: asks the method of the declaration for each layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from quantgate.quantization.auto_round import AutoRoundDeclaration
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.experts_int8 import ExpertsInt8Declaration
from quantgate.quantization.fbgemm import FbgemmDeclaration
from quantgate.quantization.fp8 import Fp8Declaration
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.quantization.modelopt import ModelOptDeclaration
from quantgate.quantization.mxfp4 import Mxfp4Declaration
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.quantization.torchao import TorchAoDeclaration
from quantgate.vllm.dialect import leaf
from quantgate.vllm.matching.auto_round import AutoRound
from quantgate.vllm.matching.bitsandbytes import BitsAndBytes
from quantgate.vllm.matching.compressed_tensors import CompressedTensors
from quantgate.vllm.matching.decision import Decision
from quantgate.vllm.matching.experts import ExpertsInt8, Mxfp4
from quantgate.vllm.matching.fp8 import Fbgemm, Fp8
from quantgate.vllm.matching.gptq_awq import Awq, Gptq
from quantgate.vllm.matching.lists import Lists
from quantgate.vllm.matching.modelopt import ModelOpt
from quantgate.vllm.matching.quark import Quark
from quantgate.vllm.matching.torchao import TorchAo
from quantgate.vllm.naming import USUAL
from quantgate.vllm.patterns import PatternError

if TYPE_CHECKING:
    from quantgate.quantization.declaration import Declaration
    from quantgate.vllm.dialect import Dialect
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Stored
    from quantgate.vllm.naming import Naming


class Method(Protocol):
    """How one quantization method decides."""

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer; a pattern that cannot be used raises `PatternError`."""


class Matcher:
    """Decides the layers of one checkpoint in one release.

    The lists of the declaration are renamed once, as the release does it.
    """

    def __init__(
        self, declaration: Declaration, naming: Naming, dialect: Dialect, stored: Stored
    ) -> None:
        self._naming = naming
        self._method = _method(declaration, Lists(naming, dialect, stored))

    def decide(self, layer: Layer) -> Decision:
        """The scheme that vLLM gives to a layer; a broken pattern decides nothing."""
        layer = replace(layer, prefix=self._naming.announced(layer.prefix))
        name = leaf(layer.prefix)
        # A usual name is that of another part's layer as well (a tower's qkv_proj).
        if name in self._naming.dense and not (layer.shards and name in USUAL):
            return Decision(None, "vLLM builds it without quantization")
        if self._method is None:
            return Decision(None)
        try:
            return self._method.decide(layer)
        except PatternError as error:
            return Decision(None, f"pattern {error.pattern}", unreadable=True, error=str(error))


def _method(declaration: Declaration, lists: Lists) -> Method | None:
    """What decides for a declaration; None where its method is not modelled."""
    match declaration:
        case CompressedTensorsDeclaration():
            return CompressedTensors(declaration, lists)
        case GptqDeclaration():
            return Gptq(declaration, lists)
        case AwqDeclaration():
            return Awq(declaration, lists)
        case Fp8Declaration():
            return Fp8(declaration, lists)
        case FbgemmDeclaration():
            return Fbgemm(declaration, lists)
        case ModelOptDeclaration():
            return ModelOpt(declaration, lists)
        case Mxfp4Declaration():
            return Mxfp4(declaration)
        case ExpertsInt8Declaration():
            return ExpertsInt8()
        case AutoRoundDeclaration():
            return AutoRound(declaration, lists)
        case QuarkDeclaration():
            return Quark(declaration, lists)
        case BitsAndBytesDeclaration():
            return BitsAndBytes(declaration)
        case TorchAoDeclaration():
            return TorchAo(declaration, lists.dialect)
    return None
