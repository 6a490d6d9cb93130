import os

import pytest
import torch

from baselines.training import placement
from baselines.training.loop import _fastest_convolutions
from baselines.training.placement import place


def test_the_cpu_is_in_single_precision_unless_asked():
    with place("cpu") as found:
        assert (found.device, found.half, found.is_first) == (torch.device("cpu"), False, True)
    with place("cpu", "bfloat16") as found, found.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_told():
    with (
        pytest.raises(ValueError, match="the device 'cuda' cannot be used here"),
        place("cuda"),
    ):
        pass


@pytest.mark.parametrize("name", ["gpu", "cuda:x"])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown device '{name}'; available devices: cpu"), place(name):
        pass


def test_encoders_are_trained_on_a_cpu_or_cuda():
    with pytest.raises(ValueError, match="to train on; choose from auto, cpu, cuda, cuda:N"), place("mps"):
        pass


def switches():
    return (
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
    )


def test_float32_is_float32_unless_tf32_is_asked_for(monkeypatch):
    monkeypatch.setattr(placement, "usable_device", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(os, "environ", {})
    before = switches()
    for precision, resolved, convolutions in (
        ("float32", "float32", False),
        ("tf32", "tf32", True),
        ("auto", "bfloat16", False),
    ):
        with place("cuda", precision) as found:
            assert (found.precision, found.half) == (resolved, resolved == "bfloat16")
            assert switches() == (convolutions, False, False)
    with place("cuda", "float32", deterministic=True) as found:
        assert found.deterministic
        assert switches() == (False, False, True)
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        with _fastest_convolutions(found):
            assert not torch.backends.cudnn.benchmark
    assert switches() == before


def test_tf32_is_refused_on_a_cpu():
    with (
        pytest.raises(ValueError, match="tf32 is a way of NVIDIA's GPUs to multiply, not of cpu"),
        place("cpu", "tf32"),
    ):
        pass
