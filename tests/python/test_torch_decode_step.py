"""torch.compile(model, backend="strata", options={"mode": "megakernel"}): which graphs are a decoder's step, and what
the step leaves, beside eager models of transformers in bfloat16 and in float64."""

import copy
import logging
import threading

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from transformers import (  # noqa: E402
    GemmaConfig, GemmaForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
    Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, StaticCache,
)

from strata.torch_backend.decode_graph import NotADecodeStep, hides_what_follows, recognize  # noqa: E402

SIZES = {"vocab_size": 101, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128}
SCALED = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {}),
    "qwen3 of other sizes": (Qwen3Config, Qwen3ForCausalLM,
                             {"hidden_size": 80, "head_dim": 64, "num_attention_heads": 3, "num_key_value_heads": 1,
                              "intermediate_size": 50, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    "llama": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": True, "rope_parameters": SCALED}),
    "llama without groups": (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 4, "num_hidden_layers": 1}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": None}),  # Llama's arithmetic by another name
}


def made(family, **sizes):
    config_type, model_type, own = FAMILIES[family] if isinstance(family, str) else (*family, {})
    torch.manual_seed(3)
    model = model_type(config_type(**(SIZES | own | sizes))).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, 0.3 if parameter.ndim == 1 else 0.15)
    return model.to(torch.bfloat16)


def compiled(model, mode="megakernel"):
    torch._dynamo.reset()
    return torch.compile(model, backend="strata", options={"mode": mode})


def cache_of(model, batch, length=24, dtype=torch.bfloat16):
    config = model.config
    cache = StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(batch, config.num_key_value_heads, config.head_dim, dtype, torch.device("cpu"))
    return cache


@torch.no_grad()
def logits_of(model, ids, cache, **more):
    return model(input_ids=ids, past_key_values=cache, use_cache=True, **more).logits


def steps_of(model, reference_of, prompt, tokens, length=24):
    """Logits of each step, of a model or a compiled one; its cache after them."""
    cache = cache_of(reference_of, prompt.shape[0], length, next(reference_of.parameters()).dtype)
    found = [logits_of(reference_of, prompt, cache)[:, -1]]
    found += [logits_of(model, tokens[:, n:n + 1], cache)[:, -1] for n in range(tokens.shape[1])]
    return torch.stack(found, 1).double(), cache


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "strata"]


def is_megakernel(caplog):
    said = lines(caplog)
    by_kernels = any("by kernels" in line for line in said)
    return any("becomes one persistent kernel" in line for line in said) and not by_kernels


@pytest.fixture(autouse=True)
def logs(caplog):
    caplog.set_level(logging.INFO, "strata")
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_steps_have_errors_like_eagers(family, batch, caplog):
    model = made(family)
    prompt, tokens = torch.randint(0, 101, (batch, 5)), torch.randint(0, 101, (batch, 9))
    exact, _ = steps_of(*[copy.deepcopy(model).double()] * 2, prompt, tokens)
    eager, theirs = steps_of(model, model, prompt, tokens)
    ours, own = steps_of(compiled(model), model, prompt, tokens)
    assert is_megakernel(caplog), lines(caplog)
    error, bar = ((one - exact)[:, 1:].norm() / exact[:, 1:].norm() for one in (ours, eager))
    assert error <= 2 * bar, (error, bar)
    for a, b in zip(own.layers, theirs.layers, strict=True):
        assert a.cumulative_length.item() == b.cumulative_length.item() == 14
        for mine, other in ((a.keys, b.keys), (a.values, b.values)):
            assert torch.allclose(mine.float(), other.float(), atol=0.05 * other.abs().max().item())
            assert not mine[:, :, 14:].any()


def test_generate(caplog):
    model = made("qwen3")
    ids = torch.randint(0, 101, (1, 4))
    expected = model.generate(ids, max_new_tokens=8, do_sample=False, cache_implementation="static")
    model.forward = compiled(model.forward)
    found = model.generate(ids, max_new_tokens=8, do_sample=False, cache_implementation="static")
    assert any("becomes one persistent kernel" in line for line in lines(caplog)), lines(caplog)
    # Tokens after one that rounding has changed are another answer's.
    assert torch.equal(found[:, :7], expected[:, :7])


def test_caches_that_others_write(caplog):
    """Prompts that kernels take in between, a cache that is cut back, two caches in turn."""
    model = made("llama")
    step = compiled(model)
    tokens = torch.randint(0, 101, (1, 20))

    def both(run, model, cache):
        return [run(model, cache, ids, length) for ids, length in
                ((tokens[:, :3], None), (tokens[:, 3:4], None), (tokens[:, 4:5], None), (tokens[:, 5:8], None),
                 (tokens[:, 8:9], None), (tokens[:, 9:12], 4), (tokens[:, 12:13], None), (tokens[:, 13:14], None))]

    def run(model, cache, ids, length):
        if length is not None:
            for layer in cache.layers:
                layer.cumulative_length.fill_(length)
        return logits_of(model, ids, cache)[:, -1].double()

    expected = both(run, model, cache_of(model, 1))
    found = both(run, step, cache_of(model, 1))
    for n, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert (mine - theirs).abs().max() < 0.05 * theirs.abs().max(), n
    caches = [cache_of(model, 1), cache_of(model, 1)]
    starts = [tokens[:, :4], tokens[:, 4:8]]
    for cache, ids in zip(caches, starts, strict=True):
        logits_of(model, ids, cache)
    in_turn = [logits_of(step, tokens[:, 8 + n:9 + n], caches[n % 2])[:, -1] for n in range(6)]
    for k in range(2):
        cache = cache_of(model, 1)
        logits_of(model, starts[k], cache)
        for n in range(k, 6, 2):
            theirs = logits_of(model, tokens[:, 8 + n:9 + n], cache)[:, -1]
            assert (in_turn[n] - theirs).abs().max() < 0.05 * theirs.abs().max(), (k, n)
    assert any("becomes one persistent kernel" in line for line in lines(caplog))


def test_weights_that_change():
    model = made("llama without groups")
    step = compiled(model)
    token = torch.tensor([[7]])
    before = logits_of(step, token, cache_of(model, 1))
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(-2)
    after, expected = (logits_of(one, token, cache_of(model, 1)) for one in (step, model))
    assert (after - expected).abs().max() < 0.05 * expected.abs().max() < (after - before).abs().max()


def test_in_inference_mode(caplog):
    model = made("qwen3")
    step = compiled(model)
    tokens = torch.randint(0, 101, (2, 6))
    with torch.inference_mode():
        caches = [cache_of(model, 2), cache_of(model, 2)]
        for n in range(6):
            mine, theirs = (logits_of(one, tokens[:, n:n + 1], cache) for one, cache in
                            zip((step, model), caches, strict=True))
            assert (mine - theirs).abs().max() < 0.05 * theirs.abs().max()
    assert is_megakernel(caplog), lines(caplog)


def close(found, expected):
    return (found - expected).abs().max() < 0.05 * expected.abs().max()


def test_padded_sequences_run_in_torch(caplog):
    """Several steps, whose masks grow, and then sequences that are not padded, by the same graphs."""
    model = made("llama")
    step = compiled(model)
    seen = torch.ones(2, 12, dtype=torch.int64)
    seen[0, :2] = 0
    for padded in (True, False):
        prompt, tokens = torch.randint(0, 101, (2, 4)), torch.randint(0, 101, (2, 4))
        found = []
        for one in (model, step):
            cache, made_here = cache_of(model, 2), []
            for n in range(5):
                mask = (seen if padded else torch.ones_like(seen))[:, :4 + n]
                places = mask.cumsum(1) - 1
                ids, places = (prompt, places.clamp(0)) if n == 0 else (tokens[:, n - 1:n], places[:, -1:])
                run = model if n == 0 else one
                made_here.append(logits_of(run, ids, cache, attention_mask=mask, position_ids=places)[:, -1])
            found.append(torch.stack(made_here))
            assert cache.layers[0].cumulative_length.item() == 8
        assert close(found[1], found[0]), padded
        if padded:
            assert any("sequences are at different positions" in line for line in lines(caplog)), lines(caplog)
            assert not any("becomes one persistent kernel" in line for line in lines(caplog))
    assert any("becomes one persistent kernel" in line for line in lines(caplog)), lines(caplog)


def test_other_batches(caplog):
    """A number of sequences that is a symbol of the graph has a decoder for each number."""
    model = made("qwen3", num_hidden_layers=1)
    step = compiled(model)
    for batch in (1, 2, 3, 2):
        tokens = torch.randint(0, 101, (batch, 3))
        caches = [cache_of(model, batch), cache_of(model, batch)]
        for n in range(3):
            mine, theirs = (logits_of(one, tokens[:, n:n + 1], cache) for one, cache in
                            zip((step, model), caches, strict=True))
            assert close(mine, theirs), (batch, n)
    assert is_megakernel(caplog), lines(caplog)
    assert sum("becomes one persistent kernel" in line for line in lines(caplog)) == 3


def test_other_lengths_of_caches(caplog):
    """The length becomes a symbol of the graph. Weights are packed once for lengths that fit."""
    model = made("llama", num_hidden_layers=1)
    step = compiled(model)
    for length in (24, 12, 40, 33):
        tokens = torch.randint(0, 101, (1, 3))
        caches = [cache_of(model, 1, length), cache_of(model, 1, length)]
        for n in range(3):
            mine, theirs = (logits_of(one, tokens[:, n:n + 1], cache) for one, cache in
                            zip((step, model), caches, strict=True))
            assert close(mine, theirs), (length, n)
    assert is_megakernel(caplog), lines(caplog)


def test_caches_at_the_addresses_of_others():
    """A cache that was freed, and another one in its place, written as often."""
    model = made("llama without groups")
    step = compiled(model)
    memory = [torch.zeros(1, 4, 24, 32, dtype=torch.bfloat16) for _ in range(2)]

    def cache_there():
        cache = cache_of(model, 1)
        for layer in cache.layers:
            layer.keys, layer.values = (torch.from_dlpack(one.view(torch.int16).numpy()).view(torch.bfloat16)
                                        for one in memory)
            layer.keys.zero_(), layer.values.zero_()
        return cache

    cache = cache_there()
    for token in (5, 6, 7):
        logits_of(step, torch.tensor([[token]]), cache)
    versions = [layer.keys._version for layer in cache.layers]
    del cache
    found = []
    for one in (step, model):
        cache = cache_there()
        for token in (15, 16, 17):
            logits_of(model, torch.tensor([[token]]), cache)
        for layer, version in zip(cache.layers, versions, strict=True):
            while layer.keys._version < version:
                torch.autograd.graph.increment_version([layer.keys, layer.values, layer.cumulative_length])
        found.append(logits_of(one, torch.tensor([[18]]), cache))
    assert close(*found)


def test_weights_that_change_where_torch_does_not_count():
    """A sequence that begins after it has the new ones."""
    model = made("llama without groups")
    step = compiled(model)
    token = torch.tensor([[7]])
    logits_of(step, token, cache_of(model, 1))
    model.model.layers[0].mlp.down_proj.weight.data.mul_(-2)
    assert close(*(logits_of(one, token, cache_of(model, 1)) for one in (step, model)))


def test_logits_that_are_not_finite(caplog):
    model = made("llama without groups")
    step = compiled(model)
    logits_of(step, torch.tensor([[7]]), cache_of(model, 1))
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.nan)
    assert logits_of(step, torch.tensor([[7]]), cache_of(model, 1)).isnan().all()
    assert any("from now on, since the decoder says: " in line for line in lines(caplog)), lines(caplog)
    with torch.no_grad():
        model.model.norm.weight.fill_(1)
    assert close(*(logits_of(one, torch.tensor([[7]]), cache_of(model, 1)) for one in (step, model)))


def test_threads():
    model = made("llama without groups")
    step = compiled(model)
    tokens = torch.randint(0, 101, (4, 6))
    logits_of(step, tokens[:1, :1], cache_of(model, 1))  # compiled
    found = [[] for _ in range(4)]

    def decode(n):
        cache = cache_of(model, 1)
        for k in range(6):
            found[n].append(logits_of(step, tokens[n:n + 1, k:k + 1], cache))

    threads = [threading.Thread(target=decode, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        cache = cache_of(model, 1)
        for k in range(6):
            assert close(found[n][k], logits_of(model, tokens[n:n + 1, k:k + 1], cache)), (n, k)


def _other_scale(model):
    model.model.layers[1].self_attn.scaling *= 1.25


def _other_epsilon(model):
    model.model.layers[1].post_attention_layernorm.variance_epsilon = 1e-3


def _other_activation(model):
    model.model.layers[0].mlp.act_fn = torch.nn.GELU()


def _scaled_residual(model):
    projection = model.model.layers[0].self_attn.o_proj
    projection.register_forward_hook(lambda module, inputs, output: output * 1.5)


def _scaled_embedding(model):
    model.model.embed_tokens.register_forward_hook(lambda module, inputs, output: output * 8.0)


def _biased(model):
    model.model.layers[0].mlp.up_proj.bias = torch.nn.Parameter(torch.ones(96, dtype=torch.bfloat16))


def _swapped_halves(model):
    """Rotary embedding of neighbours in place of halves."""
    layer = model.model.layers[0].self_attn

    def neighbours(module, inputs, output):
        return output.unflatten(-1, (-1, 2, 16)).transpose(-1, -2).flatten(-3)

    layer.q_proj.register_forward_hook(neighbours)


def reason_of(model):
    """Why a step of the model is none of the mega-kernel's; None where it is one."""
    reasons = []

    def backend(gm, inputs):
        try:
            recognize(gm.graph)
            reasons.append(None)
        except NotADecodeStep as reason:
            reasons.append(str(reason))
        return gm.forward

    torch._dynamo.reset()
    logits_of(torch.compile(model, backend=backend), torch.tensor([[7]]), cache_of(model, 1))
    assert len(reasons) == 1
    return reasons[0]


def test_masks():
    position, places = 2, torch.arange(5)
    hidden = torch.finfo(torch.bfloat16).min
    for mask, expected in (([True, True, True, False, False], True), ([True, True, True, True, False], False),
                           ([False, True, True, False, False], False), ([0.0, 0, 0, hidden, -torch.inf], True),
                           ([0.0, 0, 0, -1, hidden], False), ([-1.0, 0, 0, hidden, hidden], False),
                           ([0.0, 0, hidden, hidden, hidden], False)):
        assert hides_what_follows(torch.tensor(mask)[None, None, None], position, places) == expected, mask


def _clipped_queries(model):
    model.model.layers[0].self_attn.q_proj.register_forward_hook(lambda module, inputs, output: output.clamp(-60, 60))


def _later_positions(model):
    """Queries that grow from position 8 on, as Ministral's."""
    embedding = model.model.rotary_emb
    plain = embedding.forward

    def grown(x, position_ids):
        cos, sin = plain(x, position_ids)
        scale = 1 + 0.1 * torch.log(1 + (position_ids // 8).to(cos.dtype))[..., None]
        return cos * scale, sin * scale

    embedding.forward = grown


def _with_a_switch(model):
    model.register_buffer("switch", torch.tensor(True))
    projection = model.model.layers[0].mlp.up_proj
    projection.register_forward_hook(lambda module, inputs, output: torch.where(model.switch, output, 0.0))


@pytest.mark.parametrize("change, reason", [
    (_other_scale, "a scale of its own"), (_other_epsilon, "2 epsilons"), (_other_activation, "down_proj of layer 0"),
    (_scaled_residual, "gate_proj of layer 0"), (_scaled_embedding, "q_proj of layer 0"), (_biased, "a bias"),
    (_swapped_halves, "q of layer 0"), (_clipped_queries, "q of layer 0"), (_later_positions, "of layer 0"),
    (_with_a_switch, "down_proj of layer 0 depends on more"),
], ids=lambda one: getattr(one, "__name__", None))
def test_models_that_compute_something_else(change, reason):
    model = made("llama")
    assert reason_of(model) is None
    change(model)
    assert reason in reason_of(model)


@pytest.mark.parametrize("family, sizes, reason", [
    ((Qwen2Config, Qwen2ForCausalLM), {"head_dim": 16}, "a bias"),
    ((GemmaConfig, GemmaForCausalLM), {}, "q_proj of layer 0"),
    ("mistral", {"sliding_window": 8}, ""),
], ids=["biases", "gains from 1", "a window"])
def test_other_families(family, sizes, reason):
    assert reason in reason_of(made(family, **sizes))


def test_gradients_run_by_kernels(caplog):
    model = made("llama")
    step = compiled(model)
    logits = step(input_ids=torch.tensor([[7]]), past_key_values=cache_of(model, 1), use_cache=True).logits
    logits.float().sum().backward()
    assert model.model.norm.weight.grad is not None
    assert any("gradients are enabled" in line for line in lines(caplog)), lines(caplog)
