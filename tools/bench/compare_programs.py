#!/usr/bin/env python3
"""Training steps of models that PyTorch exported, by lathe and by PyTorch eager, in turns; prints images or sequences per second.

    compare_programs.py [--models shufflenet,lstm] [--threads 2] [--amp off|bf16] [--windows 7] [--build build/release] [--folder DIR]
    (needs PyTorch, torchvision, timm and transformers)

The models have random weights. Each is exported into `--folder` unless its file is there. Both sides run SGD with momentum and read the
loss after every step; PyTorch's convolutional networks run in channels_last. A window is as many steps as take `--seconds`; the ratio is
the median over pairs of windows. PyTorch's process keeps large blocks of memory, without which it is slower.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from lathe_program import compile_program

# The shape of the input; of words, behind "words:".
MODELS = {
    "resnet50": "16,3,64,64", "mobilenet_v2": "16,3,64,64", "efficientnet_b0": "16,3,64,64", "vgg11_bn": "16,3,64,64", "convnext_tiny": "8,3,64,64",
    "shufflenet": "32,3,64,64", "vit_tiny": "4,3,224,224", "swin_t": "2,3,224,224", "mixer": "4,3,224,224", "bert": "words:16,64",
    "gpt2": "words:16,64", "lstm": "32,32,64", "resnet18": "128,3,32,32",
}
CONVOLUTIONAL = ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vgg11_bn", "convnext_tiny", "shufflenet")
KEEP_BLOCKS = {name: str(1 << 40) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}


def make(name):
    import torch
    from torch import nn

    class Sequences(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.fc = nn.LSTM(64, 128, num_layers=2, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.fc(self.rnn(x)[0][:, -1])

    class Logits(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, words):
            return self.model(words).logits

    torch.manual_seed(0)
    if name == "lstm":
        return Sequences()
    if name in ("bert", "gpt2"):
        import transformers
        if name == "bert":
            config = transformers.BertConfig(vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
                                             max_position_embeddings=128, num_labels=10)
            return Logits(transformers.BertForSequenceClassification(config))
        config = transformers.GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=2, n_positions=128, use_cache=False)
        return Logits(transformers.GPT2LMHeadModel(config))
    if name in ("vit_tiny", "mixer"):
        import timm
        return timm.create_model({"vit_tiny": "vit_tiny_patch16_224", "mixer": "mixer_s16_224"}[name], num_classes=10)
    import torchvision
    model = getattr(torchvision.models, {"shufflenet": "shufflenet_v2_x1_0"}.get(name, name))(num_classes=10)
    if name == "resnet18":  # for images of 32 x 32
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model


def input_of(name):
    import torch
    shape = [int(number) for number in MODELS[name].removeprefix("words:").split(",")]
    return torch.randint(1, 1000, shape) if MODELS[name].startswith("words:") else torch.randn(shape)


def export(name, file):
    import torch
    model, x = make(name).train(), input_of(name)
    try:
        program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False)
    except Exception as problem:  # PyTorch's own errors have no common class
        print(f"{name}: exported with a fixed batch ({str(problem).splitlines()[0]})", file=sys.stderr)
        program = torch.export.export(model, (x,), strict=False)
    torch.export.save(program, file)


def torch_worker(name, amp, threads):
    import torch
    torch.set_num_threads(threads)
    model, x = make(name).train(), input_of(name)
    if name in CONVOLUTIONAL:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp == "bf16"):
            y = model(x)
            loss = torch.nn.functional.cross_entropy(y, labels) if y.ndim == 2 else y.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        print((time.perf_counter() - start) / int(line), flush=True)


class Side:
    """A process that reads a number of steps and answers with the seconds of one."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def window(self, steps):
        print(steps, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"compare_programs: {self.process.args[0]} ended with {self.process.wait()}")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(args, name, program):
    file = pathlib.Path(args.folder) / f"{name}.pt2"
    if not file.exists():
        export(name, file)
    environment = {"OMP_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    ours = Side([program, file, MODELS[name], args.amp, args.threads], environment)
    theirs = Side([sys.executable, os.path.abspath(__file__), "--models", name, "--amp", args.amp, "--threads", args.threads, "--worker"],
                  {**environment, **KEEP_BLOCKS})
    for side in (ours, theirs):
        side.window(2)
    counts = [max(1, round(args.seconds / side.window(1))) for side in (ours, theirs)]
    pairs = [(ours.window(counts[0]), theirs.window(counts[1])) for _ in range(args.windows)]
    for side in (ours, theirs):
        side.close()
    batch = int(MODELS[name].removeprefix("words:").split(",")[0])
    ratios = [b / a for a, b in pairs]
    speeds = [batch / statistics.median(times) for times in zip(*pairs)]
    print(f"{name:16s} ours {speeds[0]:8.1f}  PyTorch {speeds[1]:8.1f}  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(list(MODELS)[:12]), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--amp", default="off", choices=("off", "bf16"))
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).parents[2] / "build/release"))
    parser.add_argument("--folder", help="of the exported files; a temporary one without it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.models.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"--models: {unknown[0]} is none of {', '.join(MODELS)}")
    if args.worker:
        return torch_worker(names[0], args.amp, args.threads)
    with tempfile.TemporaryDirectory() as temporary:
        args.folder = args.folder or temporary
        program = compile_program("program_steps_lathe.cpp", args.build, pathlib.Path(temporary) / "program_steps")
        for name in names:
            compare(args, name, program)


if __name__ == "__main__":
    main()
