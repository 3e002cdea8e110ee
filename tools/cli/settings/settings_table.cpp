// The table of all settings (settings.h): key, default range, help and the commands that have it.
#include "lathe/tools/cli/settings/settings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/other_names.h"
#include "lathe/tools/cli/settings/training_recipes.h"

namespace lathe::cli {
namespace {

using S = Settings;
constexpr unsigned kFind = kFindLr | kFindBatch;
constexpr unsigned kLook = kEval | kReport;  // commands that evaluate a run
constexpr unsigned kLoading = kBenchLoader | kFindWorkers;
constexpr unsigned kStepViews = kExplain | kGraph;
constexpr unsigned kSteps = kTrain | kFind;  // commands that make training steps
constexpr unsigned kModels = kSteps | kLook | kPredict | kSummary | kBenchStep | kBenchConv |
                             kBenchInfer | kStepViews | kAlgosPlan | kPlan;
constexpr unsigned kData = kTrain | kFindLr | kLook | kPredict | kLoading;
constexpr unsigned kImages = kData | kDataPrepare | kStepViews;
constexpr unsigned kCompute =
    kSteps | kLook | kPredict | kBenchStep | kBenchInfer | kBenchKernels | kBenchConv | kStepViews;
constexpr unsigned kSynthetic =
    kBenchStep | kBenchInfer | kBenchConv | kFindBatch | kStepViews | kAlgosPlan | kPlan;
constexpr unsigned kRows = kImages | kSummary | kInfo | kBenchStep | kBenchInfer | kBenchKernels |
                           kBenchConv | kDataVerify | kDataFetch | kAlgos | kCkpt | kFindBatch |
                           kWatch | kAlgosPlan | kPlan;
constexpr double kMaxThreads = 1024;

// clang-format off
constexpr Setting kSettings[] = {
  {.key = "recipe", .group = "Recipe", .target = &S::recipe, .takes = kTrain, .hint = recipe_hint, .unit = "NAME",
   .help = "Settings that go together, weaker than all that are given; list prints what there is"},  // all_settings() adds the names

  {.key = "dataset", .group = "Data", .target = &S::dataset, .takes = kImages,
   .choices = "cifar10|cifar100|mnist|fashion-mnist|synthetic|folder|packed", .hint = data_root_hint, .automatic = "what --data-root is, else what suits the machine",
   .help = "Data set; folder: images of your own; packed: what data prepare wrote"},
  {.key = "data-root", .group = "Data", .target = &S::data_root, .takes = kImages | kDataFetch | kDataVerify | kCkptConvert, .unit = "PATH",
   .help = "Where data sets lie, otherwise ./data, ~/.cache/lathe and /usr/share/datasets; or a folder of images of your own, or a packed file"},
  {.key = "download", .group = "Data", .target = &S::download, .takes = kTrain,
   .help = "Fetch the data set if it is not there"},
  {.key = "synthetic-size", .group = "Data", .target = &S::synthetic_size, .takes = kImages, .unit = "N", .min = 1, .max = 1e9,
   .help = "Training images of the synthetic set; it has a fifth as many for testing"},
  {.key = "augment", .group = "Data", .target = &S::augment, .takes = kTrain | kFindLr | kLoading, .unit = "LIST", .automatic = "by data set",
   .help = "none, or some of crop, flip, resized-crop, cutout: random changes of training images"},
  {.key = "image-size", .group = "Data", .target = &S::image_size, .takes = kImages | kSummary | kSynthetic | kDataVerify, .unit = "N", .min = 1, .max = 4096, .automatic = "32; 28 for MNIST",
   .help = "Images are padded with zeros to N x N; with resized-crop, of folders (224) and packed files, made that large"},
  {.key = "skip-broken", .group = "Data", .target = &S::skip_broken, .takes = kImages,
   .help = "Of folder: other images take the place of files that cannot be read, which are named and counted"},
  {.key = "val-split", .group = "Data", .target = &S::val_split, .takes = kTrain | kFindLr | kLook | kPredict, .unit = "FRACTION", .max = 1,
   .help = "Part of the training images (0.1) that only the choice of the best looks at; 0: it looks at a folder's val beside test, or the test images. Takes missing test images, too"},
  {.key = "split", .group = "Data", .target = &S::split, .takes = kLook | kPredict, .choices = "train|val|test",
   .help = "Which part of the data set; val: that of --val-split"},
  {.key = "index", .group = "Data", .target = &S::index, .takes = kPredict, .unit = "A:B",
   .help = "Without files: rows A to B-1 of the data set, or one row A"},
  {.key = "top", .group = "Data", .target = &S::top, .takes = kPredict, .unit = "N", .min = 1, .max = 1e6,
   .help = "Of files: how many classes, the most probable first"},

  {.key = "workers", .group = "Loading", .target = &S::workers, .takes = kData, .unit = "N", .max = kMaxThreads, .automatic = "1",
   .help = "Threads that read batches ahead; 0 reads them in between. Results do not depend on it"},
  {.key = "prefetch-factor", .group = "Loading", .target = &S::prefetch_factor, .takes = kData, .unit = "N", .min = 1, .max = 1024,
   .help = "Batches that each worker reads ahead"},
  {.key = "pin-memory", .group = "Loading", .target = &S::pin_memory, .takes = kTrain | kLook, .automatic = "on a GPU",
   .help = "Batches in page-locked memory, which a GPU copies by itself"},
  {.key = "data-cache", .group = "Loading", .target = &S::data_cache, .takes = kTrain | kFindLr | kLook | kLoading, .choices = "none|ram|gpu",
   .automatic = "ram; none for folder, packed and synthetic",
   .help = "Where images lie as bytes: in their files, read each time; in memory; all of them on the GPU"},
  {.key = "drop-last", .group = "Loading", .target = &S::drop_last, .takes = kTrain | kFindLr | kLoading,
   .help = "Leave out an epoch's last batch if it is smaller than the others"},

  {.key = "model", .group = "Model", .target = &S::model, .takes = kModels,
   .hint = model_hint, .unit = "NAME", .automatic = "what suits the machine"},  // all_settings() adds the names
  {.key = "stem", .group = "Model", .target = &S::stem, .takes = kModels, .choices = "cifar|imagenet",
   .automatic = "that of --weights, else cifar for images up to 64 x 64",
   .help = "First layers of resnet18 to resnet152 and of the wide ones: 3x3, or 7x7 with stride 2 and max pooling"},
  {.key = "weights", .group = "Model", .target = &S::weights, .takes = kTrain | kFindLr | kEval | kPredict | kExplain | kBenchInfer, .unit = "FILE",
   .help = "Weights: safetensors, .npz or PyTorch's .pth; of bench infer a graph, in place of --model"},
  {.key = "weights-section", .group = "Model", .target = &S::weights_section, .takes = kTrain | kFindLr | kEval | kPredict | kExplain | kCkpt, .unit = "NAME",
   .help = "Of a .pth file with several: the dictionary to read, params_ema or ema.model; otherwise state_dict, model_state_dict, model or the only one"},
  {.key = "new-head", .group = "Model", .target = &S::new_head, .takes = kTrain | kFindLr,
   .help = "Of --weights: all but the last layer, which is made anew, for other classes"},
  {.key = "freeze", .group = "Model", .target = &S::freeze, .takes = kTrain | kFindLr, .unit = "LIST",
   .help = "Parameters or modules that are not trained, layer1,*.bn1; backbone: all but the last layer; none"},
  {.key = "classes", .group = "Model", .target = &S::classes, .takes = kSummary | kSynthetic, .unit = "N", .min = 1, .max = 1e6,
   .help = "Number of classes"},
  {.key = "in-channels", .group = "Model", .target = &S::in_channels, .takes = kSummary | kSynthetic, .unit = "N", .min = 1, .max = 1024,
   .help = "Channels of an image"},
  {.key = "input-size", .group = "Model", .target = &S::input_size, .takes = kSummary, .unit = "N,C,H,W",
   .help = "Images, channels, rows and columns, in place of --in-channels and --image-size: 1,3,224,320"},

  {.key = "optimizer", .group = "Optimisation", .target = &S::optimizer, .takes = kSteps | kPlan, .choices = "sgd|adam|adamw|rmsprop|lars|lamb|novograd",
   .help = "Update rule"},
  {.key = "lr", .group = "Optimisation", .target = &S::lr, .takes = kTrain, .unit = "NUMBER", .automatic = "by optimizer and model",
   .help = "Learning rate (its peak)"},
  {.key = "head-lr", .group = "Optimisation", .target = &S::head_lr, .takes = kTrain, .unit = "NUMBER", .automatic = "that of --lr",
   .help = "Learning rate (its peak) of the last layer"},
  {.key = "lr-scale-batch", .group = "Optimisation", .target = &S::lr_scale_batch, .takes = kTrain,
   .help = "--lr and --head-lr are for steps of 128 images, and multiplied by batch-size * accumulate / 128"},
  {.key = "momentum", .group = "Optimisation", .target = &S::momentum, .takes = kSteps | kPlan, .unit = "NUMBER", .max = 1,
   .help = "Of sgd, lars and rmsprop"},
  {.key = "nesterov", .group = "Optimisation", .target = &S::nesterov, .takes = kSteps,
   .help = "Nesterov momentum (sgd with momentum)"},
  {.key = "trust-coefficient", .group = "Optimisation", .target = &S::trust_coefficient, .takes = kSteps, .unit = "NUMBER",
   .help = "Of lars: a layer's step, relative to its norm, for a learning rate of 1"},
  {.key = "weight-decay", .group = "Optimisation", .target = &S::weight_decay, .takes = kSteps, .unit = "NUMBER", .automatic = "by model",
   .help = "L2 penalty; decoupled for adamw, lamb and novograd"},
  {.key = "no-decay-norm", .group = "Optimisation", .target = &S::no_decay_norm, .takes = kSteps | kPlan,
   .help = "No weight decay for biases and batch-norm parameters (lars and lamb: always)"},
  {.key = "scheduler", .group = "Optimisation", .target = &S::scheduler, .takes = kTrain, .choices = "none|step|multistep|cosine|linear|poly|onecycle|plateau", .hint = scheduler_hint,
   .help = "How the learning rate falls: cosine, linear, poly and onecycle end at (nearly) 0; plateau looks at the loss of evaluations"},
  {.key = "step-size", .group = "Optimisation", .target = &S::step_size, .takes = kTrain, .unit = "EPOCHS", .min = 1, .max = 1e9,
   .help = "Of step: epochs between two reductions"},
  {.key = "milestones", .group = "Optimisation", .target = &S::milestones, .takes = kTrain, .unit = "LIST",
   .help = "Of multistep: epochs of the reductions, 80,120"},
  {.key = "gamma", .group = "Optimisation", .target = &S::gamma, .takes = kTrain, .unit = "NUMBER",
   .help = "Of step, multistep and plateau: factor of a reduction"},
  {.key = "power", .group = "Optimisation", .target = &S::power, .takes = kTrain, .unit = "NUMBER", .max = 100,
   .help = "Of poly: exponent of what is left of the run"},
  {.key = "patience", .group = "Optimisation", .target = &S::patience, .takes = kTrain, .unit = "N", .max = 1e9,
   .help = "Of plateau: evaluations without a better loss that are let pass"},
  {.key = "warmup-epochs", .group = "Optimisation", .target = &S::warmup_epochs, .takes = kTrain, .unit = "NUMBER",
   .help = "Epochs in which the learning rate rises linearly from 0; of onecycle those of its rise, or 0 for 0.3 of the run"},
  {.key = "label-smoothing", .group = "Optimisation", .target = &S::label_smoothing, .takes = kTrain | kFindLr, .unit = "NUMBER", .max = 1,
   .help = "Part of a label's weight that all classes share"},
  {.key = "clip-grad-norm", .group = "Optimisation", .target = &S::clip_grad_norm, .takes = kTrain | kFindLr | kPlan, .unit = "NUMBER",
   .help = "Largest norm of the gradient; 0: any"},
  {.key = "ema", .group = "Optimisation", .target = &S::ema, .takes = kTrain, .unit = "DECAY", .max = 1,
   .help = "Evaluate, and save as best, a running mean of the weights with this decay (0.999); 0: the weights themselves"},
  {.key = "epochs", .group = "Optimisation", .target = &S::epochs, .takes = kTrain, .unit = "N", .min = 1, .max = 1e9, .automatic = "by data set",
   .help = "Passes over the training images"},
  {.key = "max-steps", .group = "Optimisation", .target = &S::max_steps, .takes = kTrain, .unit = "N", .max = 1e15,
   .help = "Stop after N steps; 0: after the last epoch"},
  {.key = "batch-size", .group = "Optimisation", .target = &S::batch_size, .takes = kData | kBenchStep | kBenchInfer | kBenchConv | kStepViews | kAlgosPlan | kPlan, .unit = "N", .min = 1, .max = 1e6, .automatic = "128; on a CPU 64 for MNIST and Fashion-MNIST",
   .help = "Images in a step; of bench infer: in a call, beside calls with one (32)"},
  {.key = "accumulate", .group = "Optimisation", .target = &S::accumulate, .takes = kTrain | kFindLr, .unit = "N", .min = 1, .max = 1e6,
   .help = "Batches whose gradients are averaged before a step"},
  {.key = "sync-batch-norm", .group = "Optimisation", .target = &S::sync_batch_norm, .takes = kTrain,
   .help = "Of several ranks: batch norm with the statistics of all of them, as one process has them"},

  {.key = "min-lr", .group = "Range test", .target = &S::min_lr, .takes = kFindLr, .unit = "NUMBER",
   .help = "Learning rate of the first step"},
  {.key = "max-lr", .group = "Range test", .target = &S::max_lr, .takes = kFindLr, .unit = "NUMBER",
   .help = "Learning rate of the last step, unless the loss diverges before"},
  {.key = "sweep-steps", .group = "Range test", .target = &S::sweep_steps, .takes = kFindLr, .unit = "N", .min = 2, .max = 1e6,
   .help = "Steps from --min-lr to --max-lr"},
  {.key = "csv", .group = "Range test", .target = &S::csv, .takes = kFindLr, .unit = "FILE",
   .help = "Write the steps as CSV: step, lr, loss, smoothed_loss"},

  {.key = "amp", .group = "Precision", .target = &S::amp, .takes = kSteps | kLook | kPredict | kBenchStep | kBenchInfer | kStepViews | kAlgosPlan | kPlan, .choices = "off|fp16|bf16", .hint = amp_hint,
   .help = "Convolutions and matrix products in a half type; parameters, sums and losses stay f32"},
  {.key = "loss-scale", .group = "Precision", .target = &S::loss_scale, .takes = kTrain | kFindLr, .unit = "dynamic|NUMBER",
   .help = "Of --amp fp16: adapts itself to overflows, or is fixed"},
  {.key = "init-scale", .group = "Precision", .target = &S::init_scale, .takes = kTrain | kFindLr, .unit = "NUMBER",
   .help = "The first dynamic loss scale"},
  {.key = "growth-interval", .group = "Precision", .target = &S::growth_interval, .takes = kTrain | kFindLr, .unit = "STEPS", .min = 1, .max = 1e9,
   .help = "Steps without overflow before the dynamic loss scale doubles"},

  {.key = "device", .group = "Speed", .target = &S::device, .takes = kCompute | kPlan, .unit = "auto|cpu|cuda:N",
   .help = "Where to compute"},
  {.key = "threads", .group = "Speed", .target = &S::threads, .takes = kCompute | kDataPrepare | kDataVerify, .unit = "N", .min = 1, .max = kMaxThreads, .automatic = "all processors",
   .help = "Threads that compute"},
  {.key = "conv-exact", .group = "Speed", .target = &S::conv_exact, .takes = kCompute,
   .help = "Direct convolutions instead of the faster Winograd ones, which round more"},
  {.key = "layout", .group = "Speed", .target = &S::layout, .takes = kTrain | kFindLr | kLook | kPredict | kSynthetic, .choices = "nchw|nhwc",
   .help = "Order of images in memory"},
  {.key = "dtype", .group = "Speed", .target = &S::dtype, .takes = kBenchConv, .choices = "f32|f16|bf16",
   .help = "Of the numbers to compute with"},
  {.key = "tf32", .group = "Speed", .target = &S::tf32, .takes = kCompute | kAlgosPlan | kPlan, .automatic = "on a GPU",
   .help = "f32 products on a GPU may be rounded to TF32, which tensor cores multiply faster"},
  {.key = "deterministic", .group = "Speed", .target = &S::deterministic, .takes = kCompute | kAlgosPlan,
   .help = "The same bits in every run on the same GPU: slower, nothing is timed"},
  {.key = "cudnn-benchmark", .group = "Speed", .target = &S::cudnn_benchmark, .takes = kCompute, .automatic = "on a GPU unless --deterministic",
   .help = "Time the engines of every new convolution on a GPU and take the fastest"},
  {.key = "conv-fusion", .group = "Speed", .target = &S::conv_fusion, .takes = kBenchStep,
   .help = "Of --cudnn-benchmark: also time kernels that compute a convolution together with the batch norm and relu around it"},
  {.key = "search-per-engine", .group = "Speed", .target = &S::search_per_engine, .takes = kBenchConv, .unit = "N", .max = 1e6, .automatic = "16 of the one that cuDNN names first, 4 of others",
   .help = "How many settings of each engine --cudnn-benchmark times; 0: all"},
  {.key = "capture", .group = "Speed", .target = &S::capture, .takes = kTrain | kBenchStep,
   .help = "Record a training step on a GPU once and launch it as one CUDA graph from then on"},
  {.key = "recompute", .group = "Speed", .target = &S::recompute, .takes = kSteps | kBenchStep | kPlan,
   .help = "Less memory for a little time: results of batch norm are computed again in the backward pass, not kept"},
  {.key = "workspace-limit", .group = "Speed", .target = &S::workspace_limit, .takes = kCompute | kAlgosPlan, .unit = "MIB", .max = 1 << 20,
   .help = "Memory that one convolution on a GPU may use beside its tensors"},
  {.key = "algo-cache", .group = "Speed", .target = &S::algo_cache, .takes = kCompute | kAlgos, .unit = "FILE",
   .help = "Keeps what --cudnn-benchmark found, so that the next start times nothing"},
  {.key = "gpu", .group = "Speed", .target = &S::gpu, .takes = kAlgosPlan | kPlan, .unit = "NAME|FILE",
   .help = "A GPU that need not be there: h200, h100, a100, l4, rtx4090, or a file that describes one as JSON"},
  {.key = "peak-gflops", .group = "Speed", .target = &S::peak_gflops, .takes = kBenchConv | kBenchStep | kPlan, .unit = "NUMBER",
   .help = "1e9 operations per second that the device can do; 0: measured, by a matrix product; of plan the data sheet's"},
  {.key = "peak-gbytes", .group = "Speed", .target = &S::peak_gbytes, .takes = kBenchConv | kBenchStep | kPlan, .unit = "NUMBER",
   .help = "1e9 bytes per second that its memory can move; 0: measured, by a copy; of plan the data sheet's"},

  {.key = "memory-limit", .group = "Speed", .target = &S::memory_limit, .takes = kFindBatch, .unit = "MIB", .max = 1 << 30,
   .help = "Memory that may be used; 0: on a CPU 90 % of what is available, on a GPU all"},
  {.key = "max-batch", .group = "Speed", .target = &S::max_batch, .takes = kFindBatch, .unit = "N", .min = 1, .max = 1e6,
   .help = "Largest batch to try"},

  {.key = "seed", .group = "Run", .target = &S::seed, .takes = kImages | kSynthetic, .unit = "N", .max = 9e18,
   .help = "Of everything random"},
  {.key = "run-dir", .group = "Run", .target = &S::run_dir, .takes = kTrain | kEval | kPredict, .unit = "DIR",
   .help = "Run folder; training makes it (otherwise runs/DATASET-MODEL-DATE-N), eval and predict read it"},
  {.key = "eval-every", .group = "Run", .target = &S::eval_every, .takes = kTrain, .unit = "EPOCHS", .max = 1e9,
   .help = "Epochs between two evaluations; 0: only at the end"},
  {.key = "log-every", .group = "Run", .target = &S::log_every, .takes = kTrain, .unit = "STEPS", .min = 1, .max = 1e9,
   .help = "Steps between two rows of training metrics"},
  {.key = "target-acc", .group = "Run", .target = &S::target_acc, .takes = kTrain, .unit = "NUMBER", .max = 100,
   .help = "Exit with 7 if the best accuracy of the evaluations stays below (0.9 or 90)"},
  {.key = "early-stopping", .group = "Run", .target = &S::early_stopping, .takes = kTrain, .unit = "EPOCHS", .max = 1e9,
   .help = "Stop when the accuracy of the evaluations has not become better for N epochs; 0: do not"},
  {.key = "time-limit", .group = "Run", .target = &S::time_limit, .takes = kTrain, .unit = "SECONDS",
   .help = "Stop, evaluate and save when the time is over; 0: no limit"},
  {.key = "resume", .group = "Run", .target = &S::resume, .takes = kTrain, .unit = "auto|PATH",
   .help = "Go on from a checkpoint, a run folder, or (auto) from what --run-dir holds, if anything"},
  {.key = "allow-changes", .group = "Run", .target = &S::allow_changes, .takes = kTrain,
   .help = "Of --resume: settings and data may differ from those of the run so far"},
  {.key = "save-every", .group = "Run", .target = &S::save_every, .takes = kTrain, .unit = "STEPS", .max = 1e15,
   .help = "Steps between two checkpoints inside of an epoch; 0: only at its end"},
  {.key = "keep", .group = "Run", .target = &S::keep, .takes = kTrain, .unit = "N", .min = 1, .max = 1e6,
   .help = "Newest checkpoints that stay, beside the best one"},
  {.key = "stop-after", .group = "Run", .target = &S::stop_after, .takes = kTrain, .unit = "STEPS", .max = 1e15,
   .help = "Save and stop after step N as after a signal, to be resumed; 0: do not"},
  {.key = "steps", .group = "Run", .target = &S::steps, .takes = kCkptVerify | kDoctor, .unit = "N", .min = 2, .max = 1e15,
   .help = "Steps of each of the trainings that are compared; of doctor: steps that are profiled"},
  {.key = "seconds", .group = "Run", .target = &S::seconds, .takes = kTips | kBenchStep | kBenchInfer | kBenchKernels | kBenchConv | kBenchLoader, .unit = "SECONDS", .min = 0.01, .max = 86400,
   .automatic = "by benchmark", .help = "Time for each measurement; of bench tips: for all together (240)"},
  {.key = "interrupt-at", .group = "Run", .target = &S::interrupt_at, .takes = kCkptVerify, .unit = "N", .max = 1e15,
   .help = "The step after which one of them stops and is resumed; 0: in the middle"},
  {.key = "dry-run", .group = "Run", .target = &S::dry_run, .takes = kTrain,
   .help = "Print the settings, the number of steps and of parameters; do nothing"},
  {.key = "confusion", .group = "Run", .target = &S::confusion, .takes = kEval, .unit = "FILE",
   .help = "Write the confusion matrix as CSV: a row per label, a column per prediction"},
  {.key = "worst", .group = "Run", .target = &S::worst, .takes = kEval, .unit = "N", .max = 1e6,
   .help = "Name the N wrong predictions with the highest loss; 0: none, or 16 with --worst-dir"},
  {.key = "worst-dir", .group = "Run", .target = &S::worst_dir, .takes = kEval, .unit = "DIR",
   .help = "Write their images into this new folder"},
  {.key = "profile", .group = "Run", .target = &S::profile, .takes = kTrain | kBenchStep,
   .help = "Record the ops: train writes trace.json and op_table.txt, bench step prints the table"},
  {.key = "profile-steps", .group = "Run", .target = &S::profile_steps, .takes = kTrain, .unit = "A:B",
   .help = "Which steps: A to B-1, counted from the begin of this process"},
  {.key = "detect-anomaly", .group = "Run", .target = &S::detect_anomaly, .takes = kTrain,
   .help = "End with the op and the line that made the first NaN or infinity, forward or backward; slow"},
  {.key = "sync", .group = "Run", .target = &S::sync, .takes = kTrain, .choices = "off|warn|error",
   .help = "Name each place of a step where the host waits for the GPU unasked; on a CPU there is none"},
  {.key = "clients", .group = "Run", .target = &S::clients, .takes = kBenchInfer, .unit = "N", .min = 1, .max = kMaxThreads,
   .help = "Also N threads that each call the graph, one after another, and compute alone (1: no such measurement)"},
  {.key = "int8", .group = "Run", .target = &S::int8, .takes = kBenchInfer | kCkptConvert,
   .help = "8-bit integers for convolutions and linear layers: of ckpt convert the new graph's, of bench infer a third form of the model"},
  {.key = "calibration", .group = "Run", .target = &S::calibration, .takes = kCkptConvert, .unit = "FOLDER",
   .help = "Of --int8: images that show how large numbers get; otherwise the training images of the checkpoint's run"},
  {.key = "calibration-images", .group = "Run", .target = &S::calibration_images, .takes = kCkptConvert, .unit = "N", .min = 1, .max = 1e6,
   .help = "Of --int8: how many of them, evenly chosen"},
  {.key = "keep-f32", .group = "Run", .target = &S::keep_f32, .takes = kCkptConvert, .unit = "LIST",
   .help = "Of --int8: layers that stay in f32: first, last, and names from the table that the command prints"},
  {.key = "compile", .group = "Run", .target = &S::compile, .takes = kBenchStep,
   .help = "Forward pass and loss through jit::compile(), and what it made of them"},
  {.key = "check-determinism", .group = "Run", .target = &S::check_determinism, .takes = kBenchStep,
   .help = "Run the step twice from one state instead, and name the first op whose output differs"},
  {.key = "layers", .group = "Run", .target = &S::layers, .takes = kBenchStep,
   .help = "On a CPU also each convolution's passes beside the least time that they need, and the shares of all work"},
  {.key = "ranges", .group = "Run", .target = &S::ranges, .takes = kExplain,
   .help = "Instead a table of the values of each op and of their gradients, and of what f16 cannot hold of them"},

  {.key = "tensorboard", .group = "Output", .target = &S::tensorboard, .takes = kTrain,
   .help = "Also write the metrics, and at each evaluation histograms of parameters and gradients, for TensorBoard"},
  {.key = "ranks", .group = "Launch", .target = &S::ranks, .takes = kLaunch, .unit = "N", .min = 1, .max = 4096,
   .help = "Processes on this machine", .letter = 'n'},
  {.key = "nodes", .group = "Launch", .target = &S::nodes, .takes = kLaunch, .unit = "N", .min = 1, .max = 100'000,
   .help = "Machines, on each of which launch is called with the same --ranks"},
  {.key = "node-rank", .group = "Launch", .target = &S::node_rank, .takes = kLaunch, .unit = "N", .max = 99'999,
   .help = "Which of them this is, from 0"},
  {.key = "rendezvous", .group = "Launch", .target = &S::rendezvous, .takes = kLaunch, .unit = "PLACE",
   .help = "Where ranks meet: tcp://HOST:PORT on the machine of rank 0, or file:///PATH that all see; otherwise, on one machine, a file of its own"},
  {.key = "max-restarts", .group = "Launch", .target = &S::max_restarts, .takes = kLaunch, .unit = "N", .max = 1e6,
   .help = "How often all ranks are started again after one has failed"},
  {.key = "grace", .group = "Launch", .target = &S::grace, .takes = kLaunch, .unit = "SECONDS", .max = 86'400,
   .help = "How long a rank may take to end after SIGTERM, when another one has failed, before it is killed"},
  {.key = "log-dir", .group = "Launch", .target = &S::log_dir, .takes = kLaunch, .unit = "DIR",
   .help = "Keep what each rank prints in DIR/rank-0.log, DIR/rank-1.log and so on"},

  {.key = "output", .group = "Output", .target = &S::output, .takes = kReport | kGraph, .unit = "FILE",
   .help = "Of report the page to write, otherwise report.html in the run's folder, of several runs in the working directory; of graph FILE.dot, or FILE.svg, which graphviz draws"},
  {.key = "svg", .group = "Output", .target = &S::svg, .takes = kFindLr | kBenchConv | kPlan, .unit = "FILE",
   .help = "Write a picture: of find-lr the curve, of bench conv the roofline, of plan the memory over the step"},
  {.key = "evaluate", .group = "Output", .target = &S::evaluate, .takes = kReport,
   .help = "Of one run: evaluate it, for the confusion matrix and the worst mistakes"},
  {.key = "interval", .group = "Output", .target = &S::interval, .takes = kWatch, .unit = "SECONDS", .min = 0.1, .max = 86400,
   .help = "Time between two looks"},
  {.key = "once", .group = "Output", .target = &S::once, .takes = kWatch,
   .help = "Look once, and end"},
  {.key = "write-config", .group = "Output", .target = &S::write_config, .takes = kFind | kFindWorkers, .unit = "FILE",
   .help = "Put what was found into this config file, new or not; its other lines stay"},
  {.key = "progress", .group = "Output", .target = &S::progress, .takes = kTrain | kFindLr | kLook | kDataFetch | kDataPrepare | kDataVerify, .choices = "auto|plain|none",
   .help = "A bar on a terminal and lines elsewhere, lines only, or nothing"},
  {.key = "format", .group = "Output", .target = &S::format, .takes = kPredict, .choices = "text|csv|json",
   .help = "Of files: a line per image, a row per class, or a JSON object per image"},
  {.key = "json", .group = "Output", .target = &S::json, .takes = kRows,
   .help = "Print JSON Lines on stdout and nothing else"},
  {.key = "quiet", .group = "Output", .target = &S::quiet, .takes = kTrain | kFindLr | kLook | kDataFetch | kDataPrepare | kDataVerify,
   .help = "Nothing on stderr but errors, and the final result on stdout"},
};
// clang-format on

/// The names as words, between which the help breaks lines.
std::string model_help(std::string_view names) {
  std::string text = "Network: ";
  for (const char c : names) text += c == '|' ? ", " : std::string(1, c);
  return text;
}

}  // namespace

std::span<const Setting> all_settings() {
  static const std::string names = model_names(), help = model_help(names);
  static const std::vector<Setting> settings = [] {
    std::vector<Setting> all(std::begin(kSettings), std::end(kSettings));
    const auto model = std::ranges::find(all, "model", &Setting::key);
    model->choices = names;
    model->help = help;
    std::ranges::find(all, "recipe", &Setting::key)->choices = recipe_choices();
    return all;
  }();
  return settings;
}

}  // namespace lathe::cli
