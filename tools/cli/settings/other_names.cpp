// The names of torchvision's scripts, timm, Lightning, Ultralytics, Transformers and fastai.
#include "lathe/tools/cli/settings/other_names.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/small_letters.h"
#include "lathe/tools/cli/has_word.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/weights_name.h"

namespace lathe::cli {
namespace {

struct OtherCommand {
  std::string_view word, command;
};
constexpr OtherCommand kOtherCommands[] = {
    {"finetune", "train --weights FILE --new-head"},
    {"fine-tune", "train --weights FILE --new-head"},
    {"fit", "train"},
    {"export", "ckpt convert FILE OUT.onnx"},
    {"onnx", "ckpt convert FILE OUT.onnx"},
    {"ckpt export", "ckpt convert FILE OUT.onnx"},
    {"convert", "ckpt convert"},
    {"ckpt verify", "ckpt verify-resume --run-dir DIR"},
    {"test", "eval"},
    {"val", "eval"},
    {"validate", "eval"},
    {"evaluate", "eval"},
    {"infer", "predict"},
    {"inference", "predict"},
    {"classify", "predict"},
    {"lr-find", "find-lr"},
    {"tune", "find-lr"},
    {"benchmark", "bench step"},
    {"profile", "bench step --profile"},
    {"version", "--version"},
    {"resume", "train --resume auto"},
};

constexpr OtherFlags kOtherFlags[] = {
    {"data-root", "",
     "data data-dir data-path dataset-path dataset-dir datadir data-folder root root-dir path "
     "folder images image-dir train train-dir train-path"},
    {"data-cache", "", "cache cache-dataset"},
    {"val-split", "", "split val-fraction val-ratio validation-split val-pct"},
    {"image-size", "",
     "size img imgsz img-size input-size resolution crop-size train-crop-size val-crop-size "
     "val-resize-size sz"},
    {"augment", "", "auto-augment aa randaugment hflip flip transforms augmentation"},
    {"augment", " shift", "translate"},
    {"augment", " cutout", "random-erase reprob random-erasing"},
    {"augment", " none", "no-augment no-aug"},
    {"workers", "", "j nw num-workers dataloader-num-workers num-data-workers"},
    {"pin-memory", "", "pin-mem dataloader-pin-memory"},
    {"model", "", "arch a net network backbone architecture model-name"},
    {"weights", "",
     "pretrained checkpoint ckpt resume load from init ckpt-path load-from initial-checkpoint w "
     "model-path weights-path load-weights checkpoint-path"},
    {"weights-section", "", "section model-key checkpoint-key state-dict-key"},
    {"weights", " FILE --new-head", "finetune fine-tune transfer"},
    {"freeze", " backbone", "freeze-backbone freeze-encoder linear-probe"},
    {"freeze", "", "freeze-layers frozen frozen-layers"},
    {"head-lr", "", "lr-head classifier-lr"},
    {"head-lr", " RATE", "head-lr-mult"},
    {"classes", "", "num-classes nc n-classes"},
    {"in-channels", "", "in-chans channels in-ch"},
    {"optimizer", "", "opt optim optimiser"},
    {"lr", "", "learning-rate lr0 base-lr max-learning-rate"},
    {"weight-decay", "", "wd l2"},
    {"label-smoothing", "", "smoothing"},
    {"clip-grad-norm", "",
     "clip-grad grad-clip gradient-clip-val max-grad-norm clip gradient-clip clip-norm "
     "gradient-clipping"},
    {"no-decay-norm", "", "norm-weight-decay no-bias-decay bias-weight-decay"},
    {"scheduler", "", "sched lr-scheduler lr-schedule lr-scheduler-type schedule"},
    {"scheduler", " cosine", "cos-lr cosine"},
    {"step-size", "", "lr-step-size decay-epochs lr-step"},
    {"gamma", "", "lr-gamma decay-rate"},
    {"warmup-epochs", "", "warmup warm-up lr-warmup-epochs"},
    {"warmup-epochs", " EPOCHS", "warmup-steps warmup-ratio"},
    {"ema", "", "model-ema model-ema-decay ema-decay"},
    {"early-stopping", "",
     "early-stop early-stopping-patience es-patience earlystopping early-stopping-rounds"},
    {"epochs", "", "n-epochs num-epochs max-epochs num-train-epochs epoch ep"},
    {"max-steps", "", "max-iters iterations iters num-steps steps max-iter limit-train-batches"},
    {"max-steps", " 2", "fast-dev-run smoke-test"},
    {"batch-size", "",
     "b bs batch train-batch-size batchsize per-device-train-batch-size eval-batch-size"},
    {"accumulate", "",
     "accumulate-grad-batches gradient-accumulation-steps grad-accum grad-accum-steps accum-iter "
     "accumulation-steps grad-accumulation accum"},
    {"sync-batch-norm", "", "sync-bn sync-batchnorm syncbn"},
    {"min-lr", "", "start-lr lr-start"},
    {"max-lr", "", "end-lr lr-end"},
    {"sweep-steps", "", "num-training num-iter num-it iters"},
    {"amp", " fp16|bf16", "precision mixed-precision use-amp amp-dtype native-amp half autocast"},
    {"amp", " fp16", "fp16"},
    {"amp", " bf16", "bf16"},
    {"amp", " off", "no-amp fp32"},
    {"device", "", "accelerator"},
    {"device", " cuda:N", "gpu gpu-id cuda use-cuda"},
    {"device", " cpu", "cpu use-cpu no-cuda no-gpu"},
    {"layout", " nhwc", "channels-last memory-format"},
    {"cudnn-benchmark", "", "benchmark"},
    {"seed", "", "random-seed manual-seed"},
    {"run-dir", "",
     "out output o name output-dir save-dir project exp-name experiment work-dir workdir logdir "
     "log-dir default-root-dir save-path save result-dir results-dir outdir"},
    {"eval-every", "", "eval-interval val-interval check-val-every-n-epoch eval-freq"},
    {"eval-every", " EPOCHS", "eval-steps val-check-interval"},
    {"log-every", "",
     "log-interval logging-steps log-every-n-steps print-freq print-interval log-freq p"},
    {"save-every", "", "save-freq save-steps checkpoint-interval"},
    {"save-every", " STEPS", "save-interval save-period"},
    {"keep", "", "save-total-limit checkpoint-hist save-top-k keep-last"},
    {"time-limit", "", "max-time"},
    {"resume", "", "resume-from resume-from-checkpoint continue"},
    {"resume", " auto", "auto-resume"},
    {"profile", "", "profiler trace"},
    {"sync", " warn", "debug-sync"},
    {"tensorboard", "", "wandb log-wandb logger report-to mlflow use-wandb use-tensorboard"},
    {"confusion", "", "confusion-matrix cm"},
    {"worst-dir", "", "save-mistakes save-errors top-losses"},
    {"top", "", "topk top-k k"},
    {"config", "", "c cfg config-file hp yaml conf"},
    {"quiet", "", "q silent no-verbose"},
    {"progress", " none", "no-progress disable-tqdm no-progress-bar"},
    {"svg", "", "plot output out show-plot"},
    {"ranks", "", "nproc-per-node nproc gpus devices world-size num-processes"},
    {"nodes", "", "nnodes num-nodes"},
    {"rendezvous", "", "rdzv-endpoint dist-url master-addr"},
};

constexpr Answer kAnswers[] = {
    {{&kTrain, &kFindLr}, "each folder of the data is a class", "num-classes nc n-classes classes"},
    {{&kTrain, &kFindLr},
     "the data determines the number of channels",
     "in-chans channels in-ch in-channels"},
    {{&kTrain, &kFindLr},
     "lathe find-lr suggests a learning rate",
     "find-lr lr-find auto-lr-find auto-lr lr-finder"},
    {{&kTrain, &kFindLr},
     "lathe find-batch finds the largest batch",
     "find-batch auto-scale-batch-size auto-batch auto-batch-size auto-find-batch-size"},
    {{&kTrain, &kFindLr}, "lathe find-workers finds how many workers are enough", "find-workers"},
    {{&kTrain},
     "lathe eval --run-dir DIR evaluates a run",
     "e eval evaluate test validate test-only do-eval"},
    {{&kTrain},
     "lathe predict --run-dir DIR FILE... classifies images",
     "predict infer do-predict"},
    {{&kTrain},
     "lathe ckpt convert DIR/best.safetensors OUT.onnx exports the model",
     "export onnx"},
    {{&kTrain},
     "lathe launch -n N lathe train ... trains with N processes, one to a GPU",
     "gpus devices nproc-per-node nproc num-processes world-size strategy ddp distributed nnodes "
     "num-nodes num-gpus n-gpus dist-url rdzv-endpoint launcher multi-gpu local-rank rank "
     "master-addr master-port"},
    {{&kTrain},
     "a folder val beside train is found by itself; --val-split takes a part of train",
     "val validation val-dir val-path val-data val-root val-folder test-dir test-path"},
    {{&kTrain, &kFindLr},
     "lathe has neither mixup nor cutmix; it has --augment crop,flip,resized-crop,cutout and "
     "--label-smoothing",
     "mixup mixup-alpha cutmix cutmix-alpha"},
    {{&kTrain}, "training always shuffles, in an order that --seed determines", "shuffle"},
    {{&kTrain},
     "a step on a GPU already runs as one CUDA graph; --no-capture turns that off",
     "compile torch-compile torchcompile jit jit-compile cuda-graph cuda-graphs"},
    {{&kTrain},
     "to look into a step, use --detect-anomaly, --profile or --sync warn",
     "debug verbose v"},
    {{&kPredict},
     "image files need no flag: lathe predict --run-dir DIR cat.jpg photos",
     "source input image images img i file files folder data-dir data test-dir path"},
    {{&kPredict, &kEval},
     "the checkpoint determines it; name that with --weights FILE or --run-dir DIR",
     "num-classes nc classes class-names names labels"},
    {{&kPredict},
     "results go to stdout: --format csv > FILE",
     "out output o output-dir save save-txt save-csv results-file project name save-dir"},
    {{&kEval},
     "--confusion FILE and --worst-dir DIR write files; --json > FILE has the numbers",
     "out output o output-dir save save-dir project name results-file save-json"},
    {{&kCkptConvert},
     "the ending of the second file determines it: lathe ckpt convert FILE OUT.onnx",
     "onnx format f to include opset out output o output-file simplify dynamic"},
    {{&kCkptConvert},
     "the files need no flag: lathe ckpt convert DIR/best.safetensors OUT.onnx",
     "run-dir checkpoint ckpt weights w model-path input i from file"},
    {{&kCkptConvert},
     "the checkpoint determines it",
     "image-size imgsz img-size input-size input-shape size "
     "classes num-classes batch-size batch"},
    {{&kReport, &kWatch}, "run folders need no flag", "run-dir logdir log-dir dir run"},
};

bool has(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Adds the parts of a text with a space between two.
void append_words(std::vector<std::string_view>& words, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The longest flag that the word goes on from: "log-every-n-steps" from "log-every".
std::string_view begin_of(std::string_view word, const std::vector<std::string_view>& keys) {
  std::string_view longest;
  for (const std::string_view key : keys) {
    const bool goes_on =
        word.starts_with(key) && word.size() > key.size() && word[key.size()] == '-';
    if (goes_on && key.size() > longest.size()) longest = key;
  }
  return longest;
}

/// A line of a config file, for what is a flag on the command line: `amp = "fp16" or "bf16"` for
/// "amp" and " fp16|bf16", `weights = "FILE" and new-head = true` for "weights" and
/// " FILE --new-head".
std::string line_for(std::string_view key, std::string_view text) {
  if (text.empty()) return std::string(key);
  constexpr std::string_view kSwitch = " --";
  const size_t end = std::min(text.find(kSwitch), text.size());
  std::string value(text.substr(1, end - 1));
  if (std::holds_alternative<std::string Settings::*>(find_setting(key)->target) ||
      std::holds_alternative<std::optional<std::string> Settings::*>(find_setting(key)->target)) {
    for (size_t bar = 0; (bar = value.find('|', bar)) != value.npos;)
      value.replace(bar, 1, "\" or \"");
    value = formatted("\"{}\"", value);
  }
  return formatted(
      "{} = {}{}", key, value,
      end == text.size() ? "" : formatted(" and {} = true", text.substr(end + kSwitch.size())));
}

struct OtherValue {
  std::string_view value, words;
};

template <size_t N>
std::string value_hint(const OtherValue (&values)[N], std::string_view text) {
  const std::string small = in_small_letters(text);
  const auto* const found =
      std::ranges::find_if(values, [&](const OtherValue& v) { return has_word(v.words, small); });
  return found == std::end(values) ? "" : formatted("; did you mean {}?", found->value);
}

}  // namespace

bool Answer::is_for(const Takes& takes) const {
  return std::ranges::any_of(commands,
                             [&](const Takes* c) { return c != nullptr && takes.includes(*c); });
}

std::string_view command_for(std::string_view word) {
  const auto* const found = std::ranges::find(kOtherCommands, word, &OtherCommand::word);
  return found == std::end(kOtherCommands) ? "" : found->command;
}

std::string flag_hint(std::string_view word, const Takes& takes,
                      const std::vector<std::string_view>& keys, std::string_view prefix) {
  std::string dashed(word);
  std::ranges::replace(dashed, '_', '-');
  const auto meant = [&](std::string_view flag, std::string_view text) {
    return formatted("; did you mean {}?",
                     prefix.empty() ? line_for(flag, text) : concat(prefix, flag, text));
  };
  if (has(keys, dashed)) return meant(dashed, "");
  if (const std::string_view why = why_gone(dashed); !why.empty())
    return formatted("; it is gone: {}", why);
  for (const Answer& answer : kAnswers) {
    if (answer.is_for(takes) && has_word(answer.words, dashed))
      return formatted("; {}", answer.text);
  }
  // Commands beside train read --run-dir.
  const auto fits = [&](const OtherFlags& other) {
    return has(keys, other.flag) && (other.flag != "run-dir" || takes == kTrainings);
  };
  std::vector<std::string_view> others;
  for (const OtherFlags& other : kOtherFlags) {
    if (!fits(other)) continue;
    if (has_word(other.words, dashed)) return meant(other.flag, other.text);
    append_words(others, other.words);
  }
  // Few letters are mistyped in a word that is nearly known, and more in one that is somewhat
  // similar. A name of another program counts only in the first case.
  const size_t few = dashed.size() / 6, more = std::max<size_t>(1, dashed.size() / 3);
  std::string near = nearest(dashed, keys, few);
  if (const std::string other = near.empty() ? nearest(dashed, others, few) : ""; !other.empty()) {
    const auto* const row = std::ranges::find_if(
        kOtherFlags, [&](const OtherFlags& o) { return fits(o) && has_word(o.words, other); });
    return meant(row->flag, row->text);
  }
  if (near.empty()) near = nearest(dashed, keys, more);
  if (!near.empty()) return meant(near, "");
  const std::string_view begin = begin_of(dashed, keys);
  return begin.empty() ? "" : meant(begin, "");
}

std::span<const OtherFlags> other_flags() { return kOtherFlags; }

std::span<const Answer> other_answers() { return kAnswers; }

std::string scheduler_hint(std::string_view text) {
  constexpr OtherValue kValues[] = {
      {"none", "constant constantlr constant_with_warmup off no"},
      {"step", "steplr"},
      {"multistep", "multisteplr"},
      {"exponential", "exponentiallr exp"},
      {"restarts",
       "cosineannealingwarmrestarts warm-restarts cosine-restarts cosine_with_restarts sgdr"},
      {"cosine", "cosineannealinglr cosine-annealing cosineannealing cos cosinelr"},
      {"linear", "linearlr"},
      {"poly", "polynomial polynomiallr polylr"},
      {"onecycle", "onecyclelr one-cycle one_cycle 1cycle"},
      {"plateau", "reducelronplateau reduce-on-plateau reduce_lr_on_plateau"}};
  return value_hint(kValues, text);
}

std::string amp_hint(std::string_view text) {
  constexpr OtherValue kValues[] = {{"off", "no none false fp32 32 float32 f32"},
                                    {"fp16", "16 float16 half f16 16-mixed true on yes fp16-mixed"},
                                    {"bf16", "bfloat16 bf16-mixed"}};
  return value_hint(kValues, text);
}

std::string model_hint(std::string_view text) {
  std::error_code unreadable;  // then there is no hint
  for (const std::string_view ending : {".pt2", ".onnx", ".lathe"}) {
    const std::string file = formatted("{}{}", text, ending);
    if (std::filesystem::is_regular_file(file, unreadable))
      return formatted("; did you mean the file {}?", file);
  }
  return names_weights(text) ? formatted("; did you mean --weights {}?", text) : "";
}

}  // namespace lathe::cli
