// The table behind settings.h.
#include "lathe/tools/cli/settings.h"

namespace lathe::cli {
namespace {

using S = Settings;
constexpr unsigned kModels = kTrain | kEval | kPredict | kSummary | kBenchStep | kBenchConv;
constexpr unsigned kData = kTrain | kEval | kPredict | kBenchLoader;
constexpr unsigned kCompute = kTrain | kEval | kPredict | kBenchStep | kBenchOp | kBenchConv;
constexpr unsigned kSynthetic = kBenchStep | kBenchConv;
constexpr unsigned kRows = kData | kSummary | kInfo | kBenchStep | kBenchOp | kBenchConv |
                           kDataVerify | kDataFetch | kGradcheck | kAlgos;
constexpr double kMaxThreads = 1024;

// clang-format off
constexpr Setting kSettings[] = {
  {.key = "dataset", .group = "Data", .target = &S::dataset, .takes = kData,
   .choices = "cifar10|cifar100|mnist|fashion-mnist|synthetic", .automatic = "what suits the machine",
   .help = "Data set"},
  {.key = "data-root", .group = "Data", .target = &S::data_root, .takes = kData | kDataFetch | kDataVerify, .unit = "DIR",
   .help = "Where data sets lie; otherwise ./data, ~/.cache/lathe and /usr/share/datasets"},
  {.key = "download", .group = "Data", .target = &S::download, .takes = kTrain,
   .help = "Fetch the data set if it is not there"},
  {.key = "synthetic-size", .group = "Data", .target = &S::synthetic_size, .takes = kData, .unit = "N", .min = 1, .max = 1e9,
   .help = "Training images of the synthetic set; it has a fifth as many for testing"},
  {.key = "augment", .group = "Data", .target = &S::augment, .takes = kTrain | kBenchLoader, .unit = "LIST", .automatic = "by data set",
   .help = "none, crop, flip or crop,flip: random changes of training images"},
  {.key = "image-size", .group = "Data", .target = &S::image_size, .takes = kData | kSummary | kSynthetic, .unit = "N", .min = 1, .max = 4096, .automatic = "32",
   .help = "Images are padded with zeros to N x N"},
  {.key = "split", .group = "Data", .target = &S::split, .takes = kEval | kPredict, .choices = "train|test",
   .help = "Which part of the data set"},
  {.key = "index", .group = "Data", .target = &S::index, .takes = kPredict, .unit = "A:B",
   .help = "Rows A to B-1, or one row A"},

  {.key = "workers", .group = "Loading", .target = &S::workers, .takes = kData, .unit = "N", .max = kMaxThreads, .automatic = "1",
   .help = "Threads that read batches ahead; 0 reads them in between. Results do not depend on it"},
  {.key = "prefetch-factor", .group = "Loading", .target = &S::prefetch_factor, .takes = kData, .unit = "N", .min = 1, .max = 1024,
   .help = "Batches that each worker reads ahead"},
  {.key = "drop-last", .group = "Loading", .target = &S::drop_last, .takes = kTrain | kBenchLoader,
   .help = "Leave out an epoch's last batch if it is smaller than the others"},

  {.key = "model", .group = "Model", .target = &S::model, .takes = kModels,
   .choices = "resnet18|resnet34|resnet8|resnet20|resnet32|resnet44|resnet56", .automatic = "what suits the machine",
   .help = "Network"},
  {.key = "stem", .group = "Model", .target = &S::stem, .takes = kModels, .choices = "cifar|imagenet",
   .help = "First layers of resnet18 and resnet34: 3x3, or 7x7 with stride 2 and max pooling"},
  {.key = "weights", .group = "Model", .target = &S::weights, .takes = kTrain | kEval | kPredict, .unit = "FILE",
   .help = "Weights: safetensors, .npz or PyTorch's .pth"},
  {.key = "classes", .group = "Model", .target = &S::classes, .takes = kSummary | kSynthetic, .unit = "N", .min = 1, .max = 1e6,
   .help = "Number of classes"},
  {.key = "in-channels", .group = "Model", .target = &S::in_channels, .takes = kSummary | kSynthetic, .unit = "N", .min = 1, .max = 1024,
   .help = "Channels of an image"},

  {.key = "optimizer", .group = "Optimisation", .target = &S::optimizer, .takes = kTrain, .choices = "sgd|adam|adamw|rmsprop",
   .help = "Update rule"},
  {.key = "lr", .group = "Optimisation", .target = &S::lr, .takes = kTrain, .unit = "NUMBER", .automatic = "by optimizer",
   .help = "Learning rate (its peak)"},
  {.key = "momentum", .group = "Optimisation", .target = &S::momentum, .takes = kTrain, .unit = "NUMBER", .max = 1,
   .help = "Of sgd and rmsprop"},
  {.key = "nesterov", .group = "Optimisation", .target = &S::nesterov, .takes = kTrain,
   .help = "Nesterov momentum (sgd with momentum)"},
  {.key = "weight-decay", .group = "Optimisation", .target = &S::weight_decay, .takes = kTrain, .unit = "NUMBER", .automatic = "by model",
   .help = "L2 penalty; decoupled for adamw"},
  {.key = "no-decay-norm", .group = "Optimisation", .target = &S::no_decay_norm, .takes = kTrain,
   .help = "No weight decay for biases and batch-norm parameters"},
  {.key = "scheduler", .group = "Optimisation", .target = &S::scheduler, .takes = kTrain, .choices = "none|step|multistep|cosine|linear",
   .help = "How the learning rate falls: cosine and linear reach 0 at the last step"},
  {.key = "step-size", .group = "Optimisation", .target = &S::step_size, .takes = kTrain, .unit = "EPOCHS", .min = 1, .max = 1e9,
   .help = "Of step: epochs between two reductions"},
  {.key = "milestones", .group = "Optimisation", .target = &S::milestones, .takes = kTrain, .unit = "LIST",
   .help = "Of multistep: epochs of the reductions, 80,120"},
  {.key = "gamma", .group = "Optimisation", .target = &S::gamma, .takes = kTrain, .unit = "NUMBER",
   .help = "Of step and multistep: factor of a reduction"},
  {.key = "warmup-epochs", .group = "Optimisation", .target = &S::warmup_epochs, .takes = kTrain, .unit = "NUMBER",
   .help = "Epochs in which the learning rate rises linearly from 0"},
  {.key = "label-smoothing", .group = "Optimisation", .target = &S::label_smoothing, .takes = kTrain, .unit = "NUMBER", .max = 1,
   .help = "Part of a label's weight that all classes share"},
  {.key = "clip-grad-norm", .group = "Optimisation", .target = &S::clip_grad_norm, .takes = kTrain, .unit = "NUMBER",
   .help = "Largest norm of the gradient; 0: any"},
  {.key = "epochs", .group = "Optimisation", .target = &S::epochs, .takes = kTrain, .unit = "N", .min = 1, .max = 1e9, .automatic = "by data set",
   .help = "Passes over the training images"},
  {.key = "max-steps", .group = "Optimisation", .target = &S::max_steps, .takes = kTrain, .unit = "N", .max = 1e15,
   .help = "Stop after N steps; 0: after the last epoch"},
  {.key = "batch-size", .group = "Optimisation", .target = &S::batch_size, .takes = kData | kSynthetic, .unit = "N", .min = 1, .max = 1e6, .automatic = "128",
   .help = "Images in a step"},
  {.key = "accumulate", .group = "Optimisation", .target = &S::accumulate, .takes = kTrain, .unit = "N", .min = 1, .max = 1e6,
   .help = "Batches whose gradients are averaged before a step"},

  {.key = "amp", .group = "Precision", .target = &S::amp, .takes = kTrain | kEval | kPredict | kBenchStep, .choices = "off|fp16|bf16",
   .help = "Convolutions and matrix products in a half type; parameters, sums and losses stay f32"},
  {.key = "loss-scale", .group = "Precision", .target = &S::loss_scale, .takes = kTrain, .unit = "dynamic|NUMBER",
   .help = "Of --amp fp16: adapts itself to overflows, or is fixed"},
  {.key = "init-scale", .group = "Precision", .target = &S::init_scale, .takes = kTrain, .unit = "NUMBER",
   .help = "The first dynamic loss scale"},
  {.key = "growth-interval", .group = "Precision", .target = &S::growth_interval, .takes = kTrain, .unit = "STEPS", .min = 1, .max = 1e9,
   .help = "Steps without overflow before the dynamic loss scale doubles"},

  {.key = "device", .group = "Speed", .target = &S::device, .takes = kCompute, .unit = "auto|cpu|cuda:N",
   .help = "Where to compute"},
  {.key = "threads", .group = "Speed", .target = &S::threads, .takes = kCompute | kGradcheck, .unit = "N", .min = 1, .max = kMaxThreads, .automatic = "all processors",
   .help = "Threads that compute"},
  {.key = "conv-exact", .group = "Speed", .target = &S::conv_exact, .takes = kCompute,
   .help = "Direct convolutions instead of the faster Winograd ones, which round more"},
  {.key = "layout", .group = "Speed", .target = &S::layout, .takes = kTrain | kEval | kPredict | kSynthetic, .choices = "nchw|nhwc",
   .help = "Order of images in memory"},
  {.key = "dtype", .group = "Speed", .target = &S::dtype, .takes = kBenchConv, .choices = "f32|f16|bf16",
   .help = "Of the numbers to compute with"},
  {.key = "tf32", .group = "Speed", .target = &S::tf32, .takes = kCompute, .automatic = "on a GPU",
   .help = "f32 products on a GPU may be rounded to TF32, which tensor cores multiply faster"},
  {.key = "deterministic", .group = "Speed", .target = &S::deterministic, .takes = kCompute,
   .help = "The same bits in every run on the same GPU: slower, nothing is timed"},
  {.key = "cudnn-benchmark", .group = "Speed", .target = &S::cudnn_benchmark, .takes = kCompute, .automatic = "on a GPU unless --deterministic",
   .help = "Time the algorithms of every new convolution on a GPU and take the fastest"},
  {.key = "workspace-limit", .group = "Speed", .target = &S::workspace_limit, .takes = kCompute, .unit = "MIB", .max = 1 << 20,
   .help = "Memory that one convolution on a GPU may use beside its tensors"},
  {.key = "algo-cache", .group = "Speed", .target = &S::algo_cache, .takes = kCompute | kAlgos, .unit = "FILE",
   .help = "Keeps what --cudnn-benchmark found, so that the next start times nothing"},
  {.key = "peak-gflops", .group = "Speed", .target = &S::peak_gflops, .takes = kBenchConv, .unit = "NUMBER",
   .help = "1e9 operations per second that the device can do; 0: measured, by a matrix product"},
  {.key = "peak-gbytes", .group = "Speed", .target = &S::peak_gbytes, .takes = kBenchConv, .unit = "NUMBER",
   .help = "1e9 bytes per second that its memory can move; 0: measured, by a copy"},

  {.key = "seed", .group = "Run", .target = &S::seed, .takes = kData | kSynthetic | kGradcheck, .unit = "N", .max = 9e18,
   .help = "Of everything random"},
  {.key = "run-dir", .group = "Run", .target = &S::run_dir, .takes = kTrain | kEval | kPredict, .unit = "DIR",
   .help = "Run folder; training makes it (otherwise runs/DATASET-MODEL-DATE-N), eval and predict read it"},
  {.key = "eval-every", .group = "Run", .target = &S::eval_every, .takes = kTrain, .unit = "EPOCHS", .max = 1e9,
   .help = "Epochs between two evaluations; 0: only at the end"},
  {.key = "log-every", .group = "Run", .target = &S::log_every, .takes = kTrain, .unit = "STEPS", .min = 1, .max = 1e9,
   .help = "Steps between two rows of training metrics"},
  {.key = "target-acc", .group = "Run", .target = &S::target_acc, .takes = kTrain, .unit = "NUMBER", .max = 100,
   .help = "Exit with 7 if the best test accuracy stays below (0.9 or 90)"},
  {.key = "time-limit", .group = "Run", .target = &S::time_limit, .takes = kTrain, .unit = "SECONDS",
   .help = "Stop, evaluate and save when the time is over; 0: no limit"},
  {.key = "dry-run", .group = "Run", .target = &S::dry_run, .takes = kTrain,
   .help = "Print the settings, the number of steps and of parameters; do nothing"},
  {.key = "confusion", .group = "Run", .target = &S::confusion, .takes = kEval, .unit = "FILE",
   .help = "Write the confusion matrix as CSV: a row per label, a column per prediction"},

  {.key = "progress", .group = "Output", .target = &S::progress, .takes = kTrain | kEval | kDataFetch, .choices = "auto|plain|none",
   .help = "A bar on a terminal and lines elsewhere, lines only, or nothing"},
  {.key = "json", .group = "Output", .target = &S::json, .takes = kRows,
   .help = "Print JSON Lines on stdout and nothing else"},
  {.key = "quiet", .group = "Output", .target = &S::quiet, .takes = kTrain | kEval | kDataFetch,
   .help = "Nothing on stderr but errors, and the final result on stdout"},
};
// clang-format on

}  // namespace

std::span<const Setting> all_settings() { return kSettings; }

}  // namespace lathe::cli
