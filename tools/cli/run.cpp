// trainer::run(): the list of commands, and the exit code for every exception.
#include <unistd.h>

#include <cstdlib>
#include <new>

#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/printable.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/command_line.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/trainer.h"

namespace lathe::cli {
namespace {

constexpr Command kCommands[] = {
    {.name = "train",
     .help = "Train a model; writes a run folder",
     .takes = kTrain,
     .run = run_train},
    {.name = "eval",
     .help = "Accuracy of a trained model on a data set",
     .takes = kEval,
     .reads_run = true,
     .run = run_eval},
    {.name = "predict",
     .help = "What a trained model makes of single images",
     .takes = kPredict,
     .words = "image files, folders, or - for a list of files on stdin",
     .max_words = SIZE_MAX,
     .reads_run = true,
     .run = run_predict},
    {.name = "find-lr",
     .help = "Learning-rate range test: which learning rate suits model, data and optimiser",
     .takes = kFindLr,
     .run = run_find_lr},
    {.name = "find-batch",
     .help = "The largest batch that a training step has memory for, and images per second",
     .takes = kFindBatch,
     .run = run_find_batch},
    {.name = "summary",
     .help = "Layers, shapes, parameters and multiply-adds of a model",
     .takes = kSummary,
     .run = run_summary},
    {.name = "data fetch",
     .help = "Download a data set",
     .takes = kDataFetch,
     .words = "one data set: cifar10, cifar100, mnist or fashion-mnist",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_fetch},
    {.name = "data prepare",
     .help = "Write a data set as one packed file of decoded images",
     .takes = kDataPrepare,
     .words = "the new file",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_prepare},
    {.name = "data verify",
     .help = "Compare a data set with its official checksums, or read every image of one's own",
     .takes = kDataVerify,
     .words = "a data set (cifar10, cifar100, mnist, fashion-mnist), a packed file or a folder",
     .min_words = 1,
     .max_words = 1,
     .run = run_data_verify},
    {.name = "find-workers",
     .help = "How many threads should read batches",
     .takes = kBenchLoader,
     .run = run_find_workers},
    {.name = "gradcheck",
     .help = "Compare gradients of the ops with finite differences",
     .takes = kGradcheck,
     .words = "[OP...]",
     .max_words = 64,
     .run = run_gradcheck},
    {.name = "bench step",
     .help = "Time training steps on synthetic batches",
     .takes = kBenchStep,
     .run = run_bench_step},
    {.name = "bench op",
     .help = "Time single ops",
     .takes = kBenchOp,
     .words = "[OP...]",
     .max_words = 64,
     .run = run_bench_op},
    {.name = "bench conv",
     .help = "Time a model's convolutions, layer by layer, beside the roofline",
     .takes = kBenchConv,
     .run = run_bench_conv},
    {.name = "bench kernels",
     .help = "Time what is bound by memory, beside a copy",
     .takes = kBenchOp,
     .words = "[KERNEL...]",
     .max_words = 64,
     .run = run_bench_kernels},
    {.name = "bench loader",
     .help = "Time the reading of batches",
     .takes = kBenchLoader,
     .run = run_bench_loader},
    {.name = "algos show",
     .help = "Convolution algorithms found by --cudnn-benchmark, with every candidate",
     .takes = kAlgos,
     .run = run_algos_show},
    {.name = "algos clear",
     .help = "Remove the file of convolution algorithms",
     .takes = kAlgos,
     .run = run_algos_clear},
    {.name = "ckpt show",
     .help = "Entries, hashes and metadata of a checkpoint",
     .takes = kCkpt,
     .words = "one file",
     .min_words = 1,
     .max_words = 1,
     .run = run_ckpt_show},
    {.name = "ckpt diff",
     .help = "What two checkpoints have not in common",
     .takes = kCkpt,
     .words = "two files",
     .min_words = 2,
     .max_words = 2,
     .run = run_ckpt_diff},
    {.name = "ckpt convert",
     .help = "The weights of a checkpoint as a file of their own, or its model as ONNX",
     .takes = kCkpt,
     .words = "a checkpoint and the new file",
     .min_words = 2,
     .max_words = 2,
     .run = run_ckpt_convert},
    {.name = "ckpt verify-resume",
     .help = "Train twice, once interrupted, and compare every bit",
     .takes = static_cast<Takes>(kTrain | kCkptVerify),
     .reads_run = true,
     .run = run_ckpt_verify_resume},
    {.name = "info", .help = "Versions, devices, number types", .takes = kInfo, .run = run_info},
};

// train logs this itself, once it knows the settings of the run that it continues.
void warn_of_flags_without_effect(const Command& command, const Invocation& call) {
  if (command.takes == kTrain || call.settings.quiet) return;
  for (const std::string& remark : flags_without_effect(call.settings, call.sources))
    write_stderr(fmt::format("warning: {}\n", printable(remark)));
}

// The library's warnings go to the log; they are no errors.
void keep_quiet() {
  set_log_handler([](LogLevel level, std::string_view text) {
    if (level == LogLevel::kError) write_stderr(fmt::format("lathe: {}\n", printable(text)));
  });
}

ExitCode fail(ExitCode code, const std::string& message) {
  write_stderr(fmt::format("lathe: {}\n", printable(message)));
  return code;
}

ExitCode run(int argc, char** argv) try {
  const CommandLine line =
      parse_command_line({argv + (argc > 0 ? 1 : 0), argv + argc}, commands(),
                         [](const char* name) -> const char* { return std::getenv(name); });
  if (!line.command) {
    write_all(STDOUT_FILENO, line.text, "stdout");
    return ExitCode::kDone;
  }
  if (line.invocation.settings.quiet) keep_quiet();
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
} catch (const Error& e) {
  return fail(ExitCode::kError, e.message());
} catch (const std::exception& e) {
  return fail(ExitCode::kError, e.what());
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace lathe::cli

int lathe::trainer::run(int argc, char** argv) {
  cli::prepare_standard_streams();
  return static_cast<int>(cli::run(argc, argv));
}
