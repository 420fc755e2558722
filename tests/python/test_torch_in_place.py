"""Which arguments of a graph a part writes over. That they are is checked on a GPU (tests/gpu/check_torch.py)."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from strata.torch_backend.decompositions import decomposition_table
from strata.torch_backend.in_place import alias_text, arguments_written_over
from strata.torch_backend.partition import Part, partition
from strata.torch_backend.writer import write_module


def graph_of(function, *inputs):
    """The graph that the backend compiles of a function, by aot_autograd."""
    graphs = []

    def keep(gm, example_inputs):
        graphs.append(gm.graph)
        return lambda arguments: gm(*arguments)

    def boxed(gm, example_inputs):
        run = keep(gm, example_inputs)
        run._boxed_call = True
        return run

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=boxed, inference_compiler=boxed, decompositions=decomposition_table(),
                            keep_inference_input_mutations=True)
    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    return graphs[-1]


def found(function, *inputs, device="cpu"):
    graph = graph_of(function, *inputs)
    plan = partition(graph)
    given, done = arguments_written_over(graph, plan, device=device)
    parts = [step for step in plan.steps if isinstance(step, Part)]
    texts = [write_module("m", p.nodes, p.inputs, p.outputs, alias_text(given.get(p.key, {}))).text for p in parts]
    return given, done, "\n".join(texts)


def step(cache, row):
    cache[:, -1:] = row
    return cache.sum(1) * 2


def test_a_row_of_a_cache_is_written_over():
    given, done, text = found(step, torch.randn(2, 64, 8), torch.randn(2, 1, 8))
    assert len(given) == len(done) == 1
    (pairs,) = given.values()
    assert len(pairs) == 1
    assert "must-alias" in text and "dynamic-update-slice" in text


def test_other_devices_keep_their_copies():
    assert found(step, torch.randn(2, 64, 8), torch.randn(2, 1, 8), device="cuda")[:2] == ({}, set())


def test_two_arguments():
    def two(keys, values, row):
        keys[:, -1:] = row
        values[:, :1] = row * 2
        return keys.sum() + values.sum()

    given, done, text = found(two, torch.randn(2, 64, 8), torch.randn(2, 64, 8), torch.randn(2, 1, 8))
    assert len(done) == 2
    (pairs,) = given.values()
    assert len(set(pairs)) == len(set(pairs.values())) == 2
    assert text.count("must-alias") == 2


@pytest.mark.parametrize("lying", [lambda c: c.transpose(0, 1), lambda c: c])
def test_arguments_lie_as_they_do(lying):
    def scaled(cache):
        cache.mul_(2)
        return cache.sum()

    cache = lying(torch.randn(6, 4, 8))
    given, done, _ = found(scaled, cache)
    assert len(done) == 1 and len(given) == 1


def test_what_has_gaps_is_copied():
    given, done, _ = found(step, torch.randn(2, 64, 16)[..., :8], torch.randn(2, 1, 8))
    assert not given and not done


def view_in_torch(cache, row):
    """torch runs the eigenvalues, of a view that the part reads too."""
    view = cache[:4, :4]
    found = torch.linalg.eigvalsh(view)
    total = (view * 2).sum()
    cache.add_(row)
    return found, total


def view_in_another_part(cache, row):
    view = cache.t()
    total = (view * 2).sum()
    found = torch.linalg.eigvalsh(row + total)
    later = view * found.sum()
    cache.add_(row)
    return later


def old_elements(cache, row):
    old = cache.clone()
    cache.add_(row)
    return old


def exchanged(cache, row):
    old = cache.clone()
    cache.copy_(row)
    row.copy_(old)
    return old.sum()


@pytest.mark.parametrize("function", [view_in_torch, view_in_another_part, old_elements, exchanged])
def test_arguments_whose_old_elements_are_read_elsewhere_are_copied(function):
    given, done, _ = found(function, torch.randn(8, 8), torch.randn(8, 8))
    assert not given and not done


def test_old_elements_that_the_part_reads_itself():
    def step_after(cache, row):
        before = cache.sum(1)
        cache[:, -1:] = row
        return before

    given, done, text = found(step_after, torch.randn(2, 64, 8), torch.randn(2, 1, 8))
    assert len(done) == text.count("must-alias") == 1


def test_a_part_that_is_refused_is_copied_and_others_are_not():
    def two_parts(keys, values, row):
        keys.add_(row)
        values.add_(torch.linalg.eigvalsh(row * 2))
        return keys.sum()

    graph = graph_of(two_parts, torch.randn(8, 8), torch.randn(8, 8), torch.randn(8, 8))
    plan = partition(graph)
    given, done = arguments_written_over(graph, plan, device="cpu")
    assert len(given) == len(done) == 2
    refused, kept = given
    again, done = arguments_written_over(graph, plan, {refused}, device="cpu")
    assert list(again) == [kept] and len(done) == 1
