import warnings

import pytest
import torch
from torch import nn

from baselines.portable import load_portable
from ident3d.errors import Ident3DError

CPU = torch.device("cpu")


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def test_torchscript_from_elsewhere_is_an_encoder(tmp_path):
    path = tmp_path / "encoder.ts"
    images = torch.rand(2, 3, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and its encoders are still about
        torch.jit.trace(Mean(), images).save(str(path))
    torch.testing.assert_close(load_portable(path, CPU)(images), images.mean((2, 3)))


def test_what_is_no_encoder_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no encoder"):
        load_portable(tmp_path / "encoder.onnx", CPU)
    other = tmp_path / "encoder.pkl"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"a file that ends in \.onnx, \.pt, \.ts, not encoder\.pkl"):
        load_portable(other, CPU)
    for suffix, kind in ((".onnx", "ONNX"), (".pt", "TorchScript")):
        damaged = tmp_path / f"encoder{suffix}"
        damaged.write_bytes(b"nothing of the kind")
        with pytest.raises(Ident3DError, match=f"cannot be loaded as {kind}"):
            load_portable(damaged, CPU)
