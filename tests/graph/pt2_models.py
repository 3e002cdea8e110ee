#!/usr/bin/env python3
"""Compares exported models of torchvision, timm, transformers and torch.nn with PyTorch.

    pt2_models.py PT2_RUN [MODEL...] [--dtype f32] [--steps N] [--lathe LATHE]
                                        (needs PyTorch, torchvision, timm, transformers, safetensors; with --lathe also onnxruntime)

Each model is made without pretrained weights, exported in DTYPE (f64) in training mode with dropout and stochastic depth set to 0,
and run by PT2_RUN (pt2_run.cpp). Printed are the largest differences of results, loss, gradients and buffers from PyTorch in
f64, each relative to the largest number of its tensor; with --steps, of the losses of N steps of SGD. Then the trained program goes
back: its file must give the same results in torch.export.load ("exported"), and its weights in the eager model ("eval"). With --lathe
`lathe ckpt convert` makes an ONNX file of it, which must give the eager model's results in onnxruntime ("onnx").
With --dtype f32 or bf16 PyTorch's own differences from its f64 follow: a batch norm over few numbers, and relu at 0, make some gradients sensitive to rounding. Such a model
agrees if it is at most four times as far from f64 as PyTorch. This is no test of CI: it takes minutes.
"""
import argparse
import copy
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

import safetensors.torch
import timm
import torchvision
import transformers

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn, self.fc = kind(8, 16, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


class Plain(nn.Module):
    """A model whose named tuple or output class torch.export cannot write."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return tuple(y for y in self.model(x) if y is not None)


def images(size, count=2):
    return lambda: (torch.randn(count, 3, size, size),)


def words():
    return (torch.randint(1, 100, (2, 12)),)


def vision(name, size=64, **options):
    return lambda: getattr(torchvision.models, name)(num_classes=10, **options), images(size)


def segmentation(name):
    return lambda: getattr(torchvision.models.segmentation, name)(num_classes=5, weights=None, weights_backbone=None), images(64)


def of_timm(name, size=64):
    return lambda: timm.create_model(name, num_classes=10), images(size)


def language(model, config, **options):
    t = transformers
    return lambda: getattr(t, model)(getattr(t, config)(vocab_size=100, **options)), words


MODELS = {
    "hf.bert": language("BertForSequenceClassification", "BertConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=32),
    "hf.gpt2": language("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False),
    "hf.llama": language("LlamaForCausalLM", "LlamaConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=64, max_position_embeddings=32, use_cache=False),
    "nn.GRU": (lambda: Recurrent(nn.GRU), lambda: (torch.randn(3, 6, 8),)),
    "nn.LSTM": (lambda: Recurrent(nn.LSTM), lambda: (torch.randn(3, 6, 8),)),
    "nn.TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
                              lambda: (torch.randn(3, 6, 32),)),
    "tv.alexnet": vision("alexnet", 96),
    "tv.inception_v3": (lambda: Plain(torchvision.models.inception_v3(num_classes=10, init_weights=False)), images(299)),
    "tv.googlenet": (lambda: Plain(torchvision.models.googlenet(num_classes=10, init_weights=False)), images(96)),
    "seg.deeplabv3_mobilenet_v3_large": segmentation("deeplabv3_mobilenet_v3_large"),
    "seg.fcn_resnet50": segmentation("fcn_resnet50"),
}
MODELS |= {f"tv.{name}": vision(name) for name in """convnext_tiny efficientnet_b0 mnasnet0_5 mobilenet_v2 mobilenet_v3_small resnet18
    resnet50 resnext50_32x4d regnet_y_400mf shufflenet_v2_x0_5 squeezenet1_1 vgg11_bn densenet121""".split()}
MODELS |= {f"tv.{name}": vision(name, 224) for name in "maxvit_t swin_t vit_b_16".split()}
MODELS |= {f"timm.{name}": of_timm(name) for name in """convnextv2_atto cspresnet50 edgenext_xx_small efficientnet_lite0 fastvit_t8
    hgnetv2_b0 mobilenetv4_conv_small nfnet_l0 repvgg_a0 resnet26d seresnet50 regnety_002 efficientnetv2_rw_t
    ghostnet_100 mobilevit_xxs poolformer_s12""".split()}
MODELS["timm.rexnet_100"] = of_timm("rexnet_100", 64)[0], images(64, 8)
MODELS |= {f"timm.{name}": of_timm(name, 224) for name in """deit3_small_patch16_224 mixer_s16_224 swin_tiny_patch4_window7_224
    tiny_vit_5m_224 visformer_tiny vit_tiny_patch16_224 levit_128s""".split()}


IN_F32 = {"hf.llama"}  # computes in f32 whatever its parameters are


def without_draws(model):
    for module in model.modules():
        for name in ("p", "drop_prob", "dropout", "attn_drop", "attention_dropout", "drop_rate", "drop_path"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model


def tensors_in(results):
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, dict):
        results = list(results.values())
    return [t for r in results if r is not None for t in tensors_in(r)]


def loss_of(results):
    return sum((y * y).mean() for y in results if y.is_floating_point())


def trained(model, given, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = loss_of(tensors_in(model(*given)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses)}


def measured(model, given, steps):
    """PyTorch's numbers in the dtype of the model. Changes it."""
    if steps:
        return trained(model, given, steps)
    results = tensors_in(model(*given))
    loss = loss_of(results)
    loss.backward()
    out = {f"out.{i}": y.detach() for i, y in enumerate(results)} | {"loss": loss.detach()}
    out |= {f"grad.{key}": p.grad for key, p in model.named_parameters() if p.grad is not None}
    persistent = set(model.state_dict())
    return out | {f"buffer.{key}": b for key, b in model.named_buffers() if key in persistent}


def prepare(name, at, dtype, steps):
    """Exports the model in `dtype`, writes its inputs.   → PyTorch's numbers in f64 and, if that is another one, in `dtype`"""
    torch.manual_seed(1)
    make, inputs = MODELS[name]
    model, given = without_draws(make()).train(), inputs()
    if steps:  # a batch norm over few numbers makes the steps chaotic: 1e-14 in a weight becomes 0.1 in the tenth loss
        given = tuple(torch.cat(batches) for batches in zip(given, *(inputs() for _ in range(3))))
    if dtype == "f64":  # else what a model computes in f32 in any case would be rounded in PyTorch alone
        torch.set_default_dtype(torch.float64)
        model, given = model.double(), tuple(x.double() if x.is_floating_point() else x for x in given)
    with torch.no_grad():  # PyTorch starts some at 0, which hides what is behind them
        for p in model.parameters():
            if p.numel() > 0 and not p.any():
                p.normal_(0, 0.1)
    try:
        program = torch.export.export(model, given, dynamic_shapes=tuple({0: torch.export.Dim.DYNAMIC} for _ in given), strict=False)
    except Exception:  # the size of the batch is fixed in this model
        program = torch.export.export(model, given, strict=False)
    torch.export.save(program, f"{at}.pt2")
    safetensors.torch.save_file({f"in.{i}": x for i, x in enumerate(given)}, f"{at}.in")
    del program
    own = None
    if dtype == "f32":
        own = measured(copy.deepcopy(model), given, steps)
    elif dtype == "bf16":  # batch norms keep f32
        half = copy.deepcopy(model).bfloat16()
        for module in half.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.float()
        own = measured(half, tuple(x.bfloat16() if x.is_floating_point() else x for x in given), steps)
    model.double()
    torch.set_default_dtype(torch.float64)  # of tensors that the model makes
    # PyTorch's gradient of hardsigmoid has 1/6 in f32, also of f64.
    original, nn.functional.hardsigmoid = nn.functional.hardsigmoid, lambda x, inplace=False: nn.functional.relu6(x + 3) / 6
    out = measured(model, tuple(x.double() if x.is_floating_point() else x for x in given), steps)
    torch.set_default_dtype(torch.float32)
    nn.functional.hardsigmoid = original
    return out, own


def back_in_python(name, at):
    """PyTorch's results of the file that Lathe wrote."""
    dtype = next(t for t in safetensors.torch.load_file(f"{at}.out").values() if t.is_floating_point()).dtype
    torch.set_default_dtype(dtype)
    given = [safetensors.torch.load_file(f"{at}.in")[f"in.{i}"] for i in range(len(safetensors.torch.load_file(f"{at}.in")))]
    program = torch.export.load(f"{at}.back.pt2")
    eager = without_draws(MODELS[name][0]()).to(dtype).eval()
    eager.load_state_dict(program.state_dict)
    with torch.no_grad():
        out = {f"eval.{i}": y for i, y in enumerate(tensors_in(eager(*given)))}
        out |= {f"exported.{i}": y for i, y in enumerate(tensors_in(program.module()(*given)))}
    torch.set_default_dtype(torch.float32)
    return out


def in_onnxruntime(lathe, at):
    """The results of the ONNX file that `lathe ckpt convert` makes."""
    import onnxruntime
    if subprocess.run([lathe, "ckpt", "convert", f"{at}.back.pt2", f"{at}.onnx"], check=False, stdout=subprocess.DEVNULL).returncode != 0:
        return {}
    session = onnxruntime.InferenceSession(f"{at}.onnx", providers=["CPUExecutionProvider"])
    given = safetensors.torch.load_file(f"{at}.in")
    inputs = {node.name: given[f"in.{i}"].numpy() for i, node in enumerate(session.get_inputs())}
    batches = [inputs]
    if session.get_inputs()[0].shape[0] == 1:  # the only batch size that the file takes
        batches = [{name: x[i:i + 1] for name, x in inputs.items()} for i in range(len(given["in.0"]))]
    results = zip(*(session.run(None, batch) for batch in batches))
    return {f"onnx.{i}": torch.cat([torch.from_numpy(y) for y in parts]) for i, parts in enumerate(results)}


def compare(want, got):
    """→ {kind: (largest relative difference, its tensor)}"""
    worst = {}
    for key, value in want.items():
        kind = key.partition(".")[0]
        if key not in got:
            worst[kind] = (float("inf"), f"{key} is missing")
            continue
        other = got[key].double()
        scale = max(value.double().abs().max().item(), 1e-30) if value.numel() else 1
        if kind == "grad":  # a bias before a norm has a gradient of rounding errors
            scale = max(scale, 1e-6 * max(v.abs().max().item() for k, v in want.items() if k.startswith("grad.")))
        difference = (other - value.double()).abs().max().item() / scale if value.numel() and other.shape == value.shape else float("inf")
        if not difference <= worst.get(kind, (-1, ""))[0]:
            worst[kind] = (difference, key)
    worst |= {"grad": (float("inf"), f"{key} is not PyTorch's") for key in got if key.startswith("grad.") and key not in want}
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--lathe")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    bounds = {"bf16": 3e-2, "f32": 1e-4, "f64": 1e-9}
    good = bad = 0
    for name in options.models or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder) / "model"
            try:
                want, own = prepare(name, at, options.dtype, options.steps)
            except Exception as error:
                torch.set_default_dtype(torch.float32)
                print(f"{name}: PyTorch does not export it: {str(error).splitlines()[0][:150]}", flush=True)
                bad += 1
                continue
            pathlib.Path(folder, "list").write_text("model\n", encoding="utf-8")
            began = time.time()
            command = [options.program, folder, options.dtype, *([str(options.steps)] if options.steps else [])]
            status = subprocess.run(command, check=False).returncode
            seconds = time.time() - began
            if os.path.exists(f"{at}.error") or status != 0:
                text = pathlib.Path(f"{at}.error").read_text(encoding="utf-8") if os.path.exists(f"{at}.error") else f"exit code {status}"
                print(f"{name}: {text}", flush=True)
                bad += 1
                continue
            torchs = compare(want, own) if own else {}
            got = safetensors.torch.load_file(f"{at}.out")
            if options.steps:
                want |= back_in_python(name, at)
            if options.steps and options.lathe:
                want |= {f"onnx.{key[5:]}": y for key, y in want.items() if key.startswith("eval.")}
                got |= in_onnxruntime(options.lathe, at)
            worst = compare(want, got)
            bound = 1e-5 if options.steps else bounds["f32" if name in IN_F32 else options.dtype]
            torchs["exported"] = torchs.get("losses", (0, ""))  # in training, by the batch's statistics
            fine = all(difference <= max(bound, 4 * torchs.get(kind, (0, ""))[0]) for kind, (difference, _) in worst.items())
            good, bad = good + fine, bad + (not fine)
            row = ", ".join(f"{kind} {difference:.1e}" + ("" if difference <= bound else f" ({key})") for kind, (difference, key) in worst.items())
            row += "; PyTorch's own " + ", ".join(f"{kind} {difference:.1e}" for kind, (difference, _) in torchs.items() if kind != "exported") if own else ""
            print(f"{name}: {'agrees' if fine else 'DIFFERS'}: {row}; {seconds:.1f} s", flush=True)
    print(f"{good} of {good + bad} models agree")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
