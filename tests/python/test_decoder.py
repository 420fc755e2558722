"""strata.Decoder: tokens beside references, streams, sampling, interrupts, and what is refused."""

import json
import pathlib
import sys
import threading
import _thread

import numpy as np
import pytest

import strata

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))
from decode_test import LLAMA, QWEN, from_bf16, logits_of, shapes, to_bf16, write_safetensors  # noqa: E402

CONFIGS = {"qwen3": QWEN | {"eos_token_id": 2}, "llama": LLAMA | {"tie_word_embeddings": True}}
PROMPT = [5, 6, 7]


def drawn(config):
    random = np.random.default_rng(5)
    return {name: to_bf16(random.standard_normal(shape) * (0.2 if len(shape) > 1 else 0.1) + (len(shape) == 1))
            for name, shape in shapes(config).items()}


def folder_of(path, config, weights):
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    write_safetensors(path / "model.safetensors", weights)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(folder, configuration, weights as float64) by family."""
    made = {}
    for name, config in CONFIGS.items():
        bits = drawn(config)
        folder = folder_of(tmp_path_factory.mktemp("models") / name, config, bits)
        made[name] = folder, config, {key: from_bf16(value) for key, value in bits.items()}
    return made


@pytest.fixture(scope="module")
def decoder(models):
    return strata.Decoder(models["llama"][0], device="host", capacity=64)


def assert_greedy(tokens, logits, vocabulary, tolerance=1e-4):
    """Each token is the likeliest after those before, or as likely to within the arithmetic's error."""
    assert len(set(tokens)) > 3 and all(0 <= token < vocabulary for token in tokens)
    gaps = [(row.max() - row[token]) / np.abs(row).max() for row, token in zip(logits, tokens, strict=True)]
    assert max(gaps) < tolerance, gaps
    assert sum(gap == 0 for gap in gaps) >= len(tokens) - 1


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_tokens(models, name):
    folder, config, weights = models[name]
    decoder = strata.Decoder(folder, device="host", capacity=64)
    generation = decoder.generate(PROMPT, 20, eos=())
    tokens = list(generation)
    logits = logits_of(config, weights, [*PROMPT, *tokens[:-1]])[len(PROMPT) - 1 :]
    assert_greedy(tokens, logits, config["vocab_size"])
    assert generation.tokens == [tokens] and generation.ended
    # Each generation begins anew; the prompt may be an array.
    assert list(decoder.generate(np.array([PROMPT]), 20, eos=())) == tokens
    assert decoder.notes == ["the interpreter, in float32"] and decoder.device == "host"
    assert set(decoder.start_seconds.values()) == {0.0}


def test_persistent_kernel(tmp_path):
    """The GPU's code, on the host: in bfloat16, one launch for many tokens."""
    config = LLAMA | {"hidden_size": 128, "head_dim": 32, "intermediate_size": 256, "vocab_size": 104}
    bits = drawn(config)
    decoder = strata.Decoder(folder_of(tmp_path / "m", config, bits), device="host-kernel", capacity=64)
    assert decoder.notes == ["one persistent kernel"]
    seconds = decoder.start_seconds
    assert seconds["step"] > 0 and seconds["memory"] > 0 and seconds["prompts"] < seconds["step"]
    tokens = list(decoder.generate(PROMPT, 10, eos=()))
    weights = {name: from_bf16(value) for name, value in bits.items()}
    logits = logits_of(config, weights, [*PROMPT, *tokens[:-1]])[len(PROMPT) - 1 :]
    assert_greedy(tokens, logits, 104, tolerance=2e-2)  # of bfloat16's error in 2 layers
    for token in decoder.generate(PROMPT, 60, eos=()):  # a launch that is left
        assert token == tokens[0]
        break
    assert list(decoder.generate(PROMPT, 10, eos=())) == tokens


def test_weights_in_memory(models, decoder):
    torch = pytest.importorskip("torch")
    _, config, _ = models["llama"]
    weights = {name: torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16) for name, bits in drawn(config).items()}
    wanted = list(decoder.generate(PROMPT, 8))
    in_memory = strata.Decoder(config, weights=weights, device="host", capacity=64)
    del weights
    assert list(in_memory.generate(torch.tensor(PROMPT), 8)) == wanted
    with pytest.raises(strata.Error, match="the given model: tensor 'model.norm.weight' is F32\n.*bfloat16"):
        strata.Decoder(config, weights={"model.norm.weight": torch.ones(64)}, device="host")
    with pytest.raises(strata.Error, match="the given model is without model.embed_tokens.weight"):
        strata.Decoder(config, weights={"model.norm.weight": torch.ones(64).bfloat16()}, device="host")


def test_batches(models, decoder):
    pair = strata.Decoder(models["llama"][0], device="host", batch=2, capacity=64)
    prompts = [PROMPT, [9]]
    generation = pair.generate(prompts, 6)
    told = list(generation)
    for sequence, prompt in enumerate(prompts):
        own = [token for number, token in told if number == sequence]
        assert own == generation.tokens[sequence] == list(decoder.generate(prompt, 6))
    with pytest.raises(strata.Error, match="1 prompts for a batch of 2\n.*batch=1"):
        pair.generate(PROMPT)


def test_sampling_and_ends(decoder):
    def tokens(**options):
        return list(decoder.generate(PROMPT, 12, **options))

    hot = tokens(temperature=2.0, seed=1)
    assert hot == tokens(temperature=2.0, seed=1) and hot != tokens(temperature=2.0, seed=2)
    assert tokens(temperature=2.0, top_k=1, seed=3) == tokens(temperature=2.0, top_p=1e-6, seed=4) == tokens()
    assert tokens(temperature=2.0, top_p=0, seed=5) == tokens(temperature=1e-9, seed=6) == tokens()
    stop = hot[4]
    assert tokens(temperature=2.0, seed=1, eos=stop) == hot[: hot.index(stop) + 1]
    assert tokens(temperature=2.0, seed=1, eos=[stop]) == hot[: hot.index(stop) + 1]
    assert len(list(decoder.generate(PROMPT))) == 64 - len(PROMPT) + 1  # the last token needs no place


def test_the_end_of_the_model(models):
    """A token that the configuration ends with ends a generation, unless eos says otherwise."""
    folder, config, weights = models["qwen3"]
    tokens = list(strata.Decoder(folder, device="host", capacity=64).generate(PROMPT, 12, eos=()))
    changed = strata.Decoder(config | {"eos_token_id": tokens[5]}, weights=folder, device="host", capacity=64)
    assert list(changed.generate(PROMPT, 12)) == tokens[: tokens.index(tokens[5]) + 1]
    assert list(changed.generate(PROMPT, 12, eos=())) == tokens


def test_one_generation_at_a_time(decoder):
    wanted = list(decoder.generate(PROMPT, 40))
    for token in decoder.generate(PROMPT, 60):
        assert token == wanted[0]
        break
    kept = decoder.generate(PROMPT, 60)
    assert next(kept) == wanted[0]
    if not kept.ended:
        with pytest.raises(strata.Error, match="has not ended the generation before.*\n.*close"):
            decoder.generate(PROMPT, 4)
    kept.close()
    assert kept.ended and list(kept) == []
    with decoder.generate(PROMPT, 60) as again:
        next(again)
    assert again.ended and list(decoder.generate(PROMPT, 40)) == wanted


def test_of_threads_that_start_at_once_one_decodes(decoder):
    together, kept = threading.Barrier(4), []

    def start():
        together.wait()
        try:
            kept.append(decoder.generate(PROMPT, 60))
        except strata.Error:
            pass

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in kept if not one.ended]) <= 1 and kept
    for one in kept:
        one.close()


def test_interrupt(models):
    """Ctrl-C ends a generation that would take minutes."""
    folder, config, _ = models["qwen3"]
    config = config | {"max_position_embeddings": 8192}
    decoder = strata.Decoder(config, weights=folder, device="host", capacity=8192)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    generation = decoder.generate(PROMPT, 8000, eos=())
    with pytest.raises(KeyboardInterrupt):
        for _ in generation:
            pass
    timer.join()
    assert generation.ended
    assert len(list(decoder.generate(PROMPT, 1))) == 1


def test_refused(models, decoder):
    folder, config, _ = models["llama"]

    def make(model=folder, **options):
        return lambda: strata.Decoder(model, **{"device": "host", "capacity": 64} | options)

    def generate(prompt=PROMPT, **options):
        return lambda: decoder.generate(prompt, **options)

    for call, why in (
        (make(device="tpu"), "device 'tpu' is none of 'auto', 'gpu', 'host', 'host-kernel'"),
        (make(mode="fast"), "mode 'fast' is none of"),
        (make(batch=0), "batch is 0\n"),
        (make(batch=1.5), "batch is float, not a whole number"),
        (make(config), "there are no weights.*\n.*weights="),
        (make("/nowhere/llama"), "there is no '/nowhere/llama'\n.*config.json"),
        (make(3), "int is no model and no configuration\n.*Qwen3ForCausalLM"),
        (make("qwen3-5b", weights="random"), "qwen3-5b"),
        (make(weights=3), "weights is int\n"),
        (make(weights={"model.norm.weight": 3}), "'model.norm.weight' is int, no tensor"),
        (make(config | {"model_type": "gpt2"}, weights="random"), 'model_type.*"gpt2"[\\s\\S]*"qwen3", "llama"'),
        (generate([101]), "token 101 of the prompt is not in the vocabulary of 101"),
        (generate([]), "the prompt is empty"),
        (generate("hello"), "prompt_ids is str\n.*tokenizer"),
        (generate([1.5]), "no sequence of token ids"),
        (generate([2**40]), "which is no token id"),
        (generate(max_new_tokens=0), "max_new_tokens is 0"),
        (generate(max_new_tokens=63), "65 positions do not fit a cache of 64\n.*capacity"),
        (generate(max_new_tokens=300),
         "300 tokens after a prompt of 3, and the model's max_position_embeddings is 256\n.*fewer"),
        (generate(temperature=-1.0), "a temperature of -1"),
        (generate(temperature="hot"), "temperature is str, not a number"),
        (generate(top_p=1.5), "top_p is 1.5"),
        (generate(top_k=-1), "top_k is -1"),
        (generate(eos=101), "token 101, to stop at, is not in the vocabulary"),
    ):
        with pytest.raises(strata.Error, match=why):
            call()


@pytest.mark.parametrize("name", ["Qwen3", "Llama"])
def test_models_of_transformers(name):
    torch = pytest.importorskip("torch")
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(hf, f"{name}Config")(
        vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, initializer_range=0.2, eos_token_id=2,
        bos_token_id=1, pad_token_id=0)  # fmt: skip
    model = getattr(hf, f"{name}ForCausalLM")(config).to(torch.bfloat16).eval()
    exact = getattr(hf, f"{name}ForCausalLM")(config).eval()
    exact.load_state_dict({key: value.float() for key, value in model.state_dict().items()})
    decoder = strata.Decoder(model, device="host", capacity=64)
    tokens = list(decoder.generate(PROMPT, 20, eos=()))
    with torch.no_grad():
        logits = exact(torch.tensor([[*PROMPT, *tokens[:-1]]])).logits[0, len(PROMPT) - 1 :].double().numpy()
    assert_greedy(tokens, logits, 101)
    wanted = exact.generate(torch.tensor([PROMPT]), max_new_tokens=20, do_sample=False)[0, len(PROMPT) :].tolist()
    top = np.sort(logits, axis=1)
    clear = [*((top[:, -1] - top[:, -2]) / np.abs(logits).max(1) > 1e-4), False].index(False)
    assert clear >= 10 and tokens[:clear] == wanted[:clear]
    model.generation_config.eos_token_id = [tokens[4], 2]
    again = strata.Decoder(model, device="host", capacity=64)
    assert list(again.generate(PROMPT, 20)) == tokens[: tokens.index(tokens[4]) + 1]
    with pytest.raises(strata.Error, match="F32\n.*bfloat16"):
        strata.Decoder(exact, device="host")


def test_weights_that_are_negated_views_are_read_as_torch_shows_them():
    torch = pytest.importorskip("torch")
    shown = torch._neg_view(torch.arange(6, dtype=torch.float32).reshape(2, 3))
    _, (kept,) = strata.decoder._tensors({"w": shown})
    assert not kept.is_neg() and kept.equal(-torch.arange(6, dtype=torch.float32).reshape(2, 3))
