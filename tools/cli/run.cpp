// trainer::run(): the list of commands, and the exit code for every exception.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/log.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/distributed/error.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/command_line.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/trainer.h"

namespace lathe::cli {
namespace {

constexpr Command kCommands[] = {
    {.name = "train",
     .help = "Train a model; writes a run folder",
     .example = "lathe train --model resnet20 --dataset cifar10 --epochs 30 --run-dir runs/a",
     .takes = kTrainings,
     .run = run_train},
    {.name = "eval",
     .help = "Accuracy of a trained model on a data set",
     .example = "lathe eval --run-dir runs/a --worst 16",
     .takes = kEval,
     .reads_run = ReadsRun::kWeights,
     .run = run_eval},
    {.name = "predict",
     .help = "Classes that a trained model predicts for single images",
     .example = "lathe predict --run-dir runs/a cat.jpg photos",
     .takes = kPredict,
     .words = "image files, folders, or - for a list of files on stdin",
     .max_words = SIZE_MAX,
     .reads_run = ReadsRun::kWeights,
     .run = run_predict},
    {.name = "report",
     .help = "A page for the browser: curves, mistakes and settings of a run, or of several",
     .example = "lathe report runs/a",
     .takes = kReport,
     .words = "run folders",
     .min_words = 1,
     .max_words = 20,
     .run = run_report},
    {.name = "watch",
     .help = "Running trainings, shown on the terminal: loss, accuracy, speed, time left, GPUs",
     .example = "lathe watch runs/a",
     .takes = kWatch,
     .words = "run folders",
     .min_words = 1,
     .max_words = 20,
     .run = run_watch},
    {.name = "doctor",
     .help = "What slows a training down: settings, the model and some measured steps",
     .example = "lathe doctor --model resnet20 --dataset cifar10",
     .takes = kDoctor,
     .reads_run = ReadsRun::kSettings,
     .run = run_doctor},
    {.name = "find-lr",
     .help = "Learning-rate range test: which learning rate suits model, data and optimiser",
     .example = "lathe find-lr --model resnet20 --dataset cifar10",
     .takes = kFindLr,
     .run = run_find_lr},
    {.name = "find-batch",
     .help = "The largest batch that a training step has memory for, and images per second",
     .example = "lathe find-batch --model resnet50",
     .takes = kFindBatch,
     .run = run_find_batch},
    {.name = "plan",
     .help = "Every kernel launch of a training step, predicted for a GPU that this machine need "
             "not have: bytes, operations, time",
     .example = "lathe plan --gpu h200 --model resnet18 --batch-size 512 --amp fp16",
     .takes = kPlan,
     .run = run_plan},
    {.name = "summary",
     .help = "Layers, shapes, parameters and multiply-adds of a model",
     .example = "lathe summary --model resnet50",
     .takes = kSummary,
     .run = run_summary},
    {.name = "explain",
     .help = "One training step op by op: formulas, shapes, what is kept, gradients",
     .example = "lathe explain --model resnet8 --batch-size 32",
     .takes = kExplain,
     .reads_run = ReadsRun::kWeights,
     .run = run_explain},
    {.name = "graph",
     .help = "The graph of a training step as a picture: ops, shapes, and the tensors that each op "
             "saves",
     .example = "lathe graph --model resnet8 --output resnet8.svg",
     .takes = kGraph,
     .reads_run = ReadsRun::kWeights,
     .run = run_graph},
    {.name = "data fetch",
     .help = "Download a data set",
     .example = "lathe data fetch cifar10",
     .takes = kDataFetch,
     .words = "one data set: cifar10, cifar100, mnist or fashion-mnist",
     .known_words = "cifar10|cifar100|mnist|fashion-mnist",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_fetch},
    {.name = "data prepare",
     .help = "Write a data set as one packed file of decoded images",
     .example = "lathe data prepare --dataset folder --data-root pets pets.packed",
     .takes = kDataPrepare,
     .words = "the new file",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_prepare},
    {.name = "data verify",
     .help = "Compare a data set with its official checksums, or read every image of your own",
     .example = "lathe data verify cifar10",
     .takes = kDataVerify,
     .words = "a data set (cifar10, cifar100, mnist, fashion-mnist), a packed file or a folder",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_verify},
    {.name = "find-workers",
     .help = "How many threads should read batches",
     .example = "lathe find-workers --dataset folder --data-root pets",
     .takes = kFindWorkers,
     .run = run_find_workers},
    {.name = "bench step",
     .help = "Time training steps on synthetic batches",
     .example = "lathe bench step --model resnet50 --batch-size 32",
     .takes = kBenchStep,
     .run = run_bench_step},
    {.name = "bench infer",
     .help = "Time a model without training: latency, throughput, layer by layer and as a graph",
     .example = "lathe bench infer --model resnet18 --image-size 224",
     .takes = kBenchInfer,
     .run = run_bench_infer},
    {.name = "bench conv",
     .help = "Time a model's convolutions, layer by layer, beside the roofline",
     .example = "lathe bench conv --model resnet18",
     .takes = kBenchConv,
     .run = run_bench_conv},
    {.name = "bench kernels",
     .help = "Time memory-bound kernels, compared with a copy",
     .example = "lathe bench kernels",
     .takes = kBenchKernels,
     .words = "[KERNEL...]",
     .max_words = 64,
     .run = run_bench_kernels},
    {.name = "bench loader",
     .help = "Time the reading of batches",
     .example = "lathe bench loader --dataset cifar10",
     .takes = kBenchLoader,
     .run = run_bench_loader},
    {.name = "bench tips",
     .help = "Measure the well-known tips for fast training, one by one, on one job",
     .example = "lathe bench tips --model resnet20 --dataset cifar10",
     .takes = kTips,
     .run = run_bench_tips},
    {.name = "algos show",
     .help = "The convolution engines that were timed, and the chosen ones",
     .example = "lathe algos show --algo-cache algos.json",
     .takes = kAlgos,
     .run = run_algos_show},
    {.name = "algos clear",
     .help = "Remove the file of convolution engines",
     .example = "lathe algos clear --algo-cache algos.json",
     .takes = kAlgos,
     .run = run_algos_clear},
    {.name = "algos plan",
     .help = "The engines that cuDNN would choose for a model's convolutions on a GPU that this "
             "machine need not have",
     .example = "lathe algos plan --gpu h200 --model resnet18 --batch-size 512 --amp fp16",
     .takes = kAlgosPlan,
     .run = run_algos_plan},
    {.name = "ckpt show",
     .help = "Entries, hashes and metadata of a checkpoint",
     .example = "lathe ckpt show runs/a/last.safetensors",
     .takes = kCkpt,
     .words = "one file",
     .min_words = 1,
     .max_words = 1,
     .run = run_ckpt_show},
    {.name = "ckpt diff",
     .help = "The differences between two checkpoints",
     .example = "lathe ckpt diff runs/a/last.safetensors runs/b/last.safetensors",
     .takes = kCkpt,
     .words = "two files",
     .min_words = 2,
     .max_words = 2,
     .run = run_ckpt_diff},
    {.name = "ckpt convert",
     .help = "The weights of a checkpoint as .safetensors or .npz, or its model as .onnx, .lathe "
             "or .pt2",
     .example = "lathe ckpt convert runs/a/best.safetensors model.onnx",
     .takes = kCkptConvert,
     .words = "a checkpoint and the new file, whose ending determines the format",
     .min_words = 2,
     .max_words = 2,
     .run = run_ckpt_convert},
    {.name = "ckpt verify-resume",
     .help = "Train twice, once interrupted, and compare every bit",
     .example = "lathe ckpt verify-resume --run-dir runs/a --steps 200",
     .takes = kCkptVerify,
     .reads_run = ReadsRun::kSettings,
     .run = run_ckpt_verify_resume},
    {.name = "launch",
     .help = "Start several processes of one program, which join a process group",
     .example = "lathe launch -n 4 --max-restarts 3 ./my_training --epochs 10",
     .takes = kLaunch,
     .words = "a program and its arguments",
     .min_words = 1,
     .max_words = SIZE_MAX,
     .runs_program = true,
     .run = run_launch},
    {.name = "completion",
     .help = "A script with which bash, zsh or fish complete commands, flags and values",
     .example = "source <(lathe completion bash)",
     .takes = kNothing,
     .words = "bash, zsh or fish",
     .known_words = "bash|zsh|fish",
     .min_words = 1,
     .max_words = 1,
     .run = run_completion},
    {.name = "man",
     .help = "The manual page",
     .example = "lathe man | man -l -",
     .takes = kNothing,
     .run = run_man},
    {.name = "info",
     .help = "Versions, devices, number types",
     .example = "lathe info --json",
     .takes = kInfo,
     .run = run_info},
};

// train logs this itself, once it knows the settings of the run that it continues.
void warn_of_flags_without_effect(const Command& command, const Invocation& call) {
  if (command.takes == kTrainings || call.settings.quiet) return;
  for (const std::string& remark : flags_without_effect(call.settings, call.sources))
    write_stderr_line(formatted("warning: {}", printable(remark)));
}

// The library's warnings go to the log; they are no errors.
void keep_quiet() {
  set_log_handler([](LogLevel level, std::string_view text) {
    if (level == LogLevel::kError) write_stderr_line(formatted("lathe: {}", printable(text)));
  });
}

ExitCode fail(ExitCode code, const std::string& message) {
  write_stderr_line(formatted("lathe: {}", printable(message)));
  return code;
}

ExitCode run(int argc, char** argv) try {
  const CommandLine line =
      parse_command_line({argv + (argc > 0 ? 1 : 0), argv + argc}, commands(),
                         [](const char* name) -> const char* { return std::getenv(name); });
  if (!line.command) {
    if (line.code != ExitCode::kDone) {
      write_stderr(line.text);
      return line.code;
    }
    write_all(STDOUT_FILENO, line.text, "stdout");
    return ExitCode::kDone;
  }
  if (line.invocation.settings.quiet) {
    keep_quiet();
  } else {
    for (const std::string& remark : mistyped_variables(environ))
      write_stderr_line(formatted("warning: {}", printable(remark)));
  }
  warn_of_flags_without_effect(*line.command, line.invocation);
  return line.command->run(line.invocation);
} catch (const CommandError& e) {
  return fail(e.code(), e.what());
} catch (const DataError& e) {
  return fail(ExitCode::kData, e.message());
} catch (const DeviceError& e) {
  return fail(ExitCode::kDevice, e.message());
} catch (const CudaError& e) {
  return fail(ExitCode::kDevice, e.message());
} catch (const OutOfMemoryError& e) {
  return fail(ExitCode::kOutOfMemory, e.message());
} catch (const std::bad_alloc&) {
  return fail(ExitCode::kOutOfMemory, "out of memory");
} catch (const distributed::DistributedError& e) {
  return fail(ExitCode::kRanks, e.message());
} catch (const Error& e) {
  return fail(ExitCode::kError, e.message());
} catch (const std::filesystem::filesystem_error& e) {
  return fail(ExitCode::kError, text_of(e));
} catch (const std::exception& e) {
  return fail(ExitCode::kError, e.what());
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace lathe::cli

int lathe::trainer::run(int argc, char** argv) {
  cli::prepare_standard_streams();
  const cli::CleanEnd clean;
  return static_cast<int>(cli::run(argc, argv));
}
