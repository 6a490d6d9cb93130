import pytest
import torch

from baselines.training.placement import place


def test_the_cpu_is_in_single_precision_unless_asked():
    with place("cpu") as placement:
        assert (placement.device, placement.half, placement.is_first) == (torch.device("cpu"), False, True)
    with place("cpu", "bfloat16") as placement, placement.autocast():
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
