// What is said to the names that people bring from other programs.
#include "lathe/tools/cli/settings/other_names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/settings.h"

using namespace lathe::cli;

namespace {

std::vector<std::string_view> keys_of(const Takes& takes) {
  std::vector<std::string_view> keys{"config", "help"};
  for (const Setting& setting : all_settings()) {
    if (takes.has(setting)) keys.push_back(setting.key);
  }
  return keys;
}

std::string hint(std::string_view word, const Takes& takes = kTrainings) {
  return flag_hint(word, takes, keys_of(takes), "--");
}

struct Case {
  std::string_view word, hint;
};

}  // namespace

TEST_CASE("other names: flags of other trainers lead to ours") {
  const Case cases[] = {
      {"batch_size", "; did you mean --batch-size?"},
      {"bs", "; did you mean --batch-size?"},
      {"per_device_train_batch_size", "; did you mean --batch-size?"},
      {"learning_rate", "; did you mean --lr?"},
      {"wd", "; did you mean --weight-decay?"},
      {"imgsz", "; did you mean --image-size?"},
      {"train-crop-size", "; did you mean --image-size?"},
      {"project", "; did you mean --run-dir?"},
      {"default_root_dir", "; did you mean --run-dir?"},
      {"ckpt-path", "; did you mean --weights?"},
      {"finetune", "; did you mean --weights FILE --new-head?"},
      {"precision", "; did you mean --amp fp16|bf16?"},
      {"half", "; did you mean --amp fp16|bf16?"},
      {"no-amp", "; did you mean --amp off?"},
      {"accumulate-grad-batches", "; did you mean --accumulate?"},
      {"gradient_accumulation_steps", "; did you mean --accumulate?"},
      {"early-stopping-patience", "; did you mean --early-stopping?"},
      {"sched", "; did you mean --scheduler?"},
      {"warmup", "; did you mean --warmup-epochs?"},
      {"gradient-clip-val", "; did you mean --clip-grad-norm?"},
      {"max-iters", "; did you mean --max-steps?"},
      {"save-interval", "; did you mean --save-every STEPS?"},
      {"val-fraction", "; did you mean --val-split?"},
      {"val-check-interval", "; did you mean --eval-every EPOCHS?"},
      {"data_dir", "; did you mean --data-root?"},
      {"j", "; did you mean --workers?"},
      {"channels-last", "; did you mean --layout nhwc?"},
      {"cpu", "; did you mean --device cpu?"},
      {"batchsize", "; did you mean --batch-size?"},
      {"log-every-n", "; did you mean --log-every?"},
  };
  for (const Case& c : cases) CHECK_MESSAGE(hint(c.word) == c.hint, c.word);
}

TEST_CASE("other names: a mistyped name leads where the name does") {
  const Case cases[] = {
      {"lerning-rate", "; did you mean --lr?"},
      {"learnig_rate", "; did you mean --lr?"},
      {"batchsise", "; did you mean --batch-size?"},
      {"moemntum", "; did you mean --momentum?"},
      {"channel-last", "; did you mean --layout nhwc?"},
      {"weigth-decay", "; did you mean --weight-decay?"},
      {"epcohs", "; did you mean --epochs?"},
  };
  for (const Case& c : cases) CHECK_MESSAGE(hint(c.word) == c.hint, c.word);
  CHECK(hint("lerning-rate", kEval).find("--lr?") == std::string::npos);
}

TEST_CASE("other names: for what is no flag the way is named") {
  CHECK(hint("lr-find") == "; lathe find-lr suggests a learning rate");
  CHECK(hint("auto-lr-find") == hint("lr-find"));
  CHECK(hint("auto-scale-batch-size") == "; lathe find-batch finds the largest batch");
  CHECK(hint("num-classes") == "; each folder of the data is a class");
  CHECK(hint("gpus").starts_with("; lathe launch -n N lathe train"));
  CHECK(hint("master_port") == hint("gpus"));
  CHECK(hint("val").ends_with("; --val-split takes a part of train"));
  CHECK(hint("evaluate") == "; lathe eval --run-dir DIR evaluates a run");
  CHECK(hint("onnx", kCkptConvert) ==
        "; the ending of the second file determines it: lathe ckpt convert FILE OUT.onnx");
  CHECK(hint("run-dir", kCkptConvert) ==
        "; the files need no flag: lathe ckpt convert DIR/best.safetensors OUT.onnx");
  CHECK(hint("source", kPredict).starts_with("; image files need no flag"));
  CHECK(hint("images", kPredict) == hint("source", kPredict));
  CHECK(hint("run-dir", kWatch) == "; run folders need no flag");
}

TEST_CASE(
    "other names: each flag is offered where it is, and words that mean nothing get nothing") {
  CHECK(hint("num-classes", kSummary) == "; did you mean --classes?");
  CHECK(hint("resume", kEval) == "; did you mean --weights?");
  CHECK(hint("out", kPredict).find("--run-dir") == std::string::npos);
  CHECK(hint("output", kFindLr) == "; did you mean --svg?");
  CHECK(hint("lr", kEval).find("--lr") == std::string::npos);
  for (const std::string_view word : {"mean", "steps-of-mine", "yaml-file", "hello", "x", "eval-x"})
    CHECK_MESSAGE(hint(word).empty(), word);
}

TEST_CASE("other names: a key of a config file is answered with a line of one") {
  const auto line = [](std::string_view key, const Takes& takes = kTrain) {
    return flag_hint(key, takes, keys_of(takes), "");
  };
  CHECK(line("batch_sz") == "; did you mean batch-size?");
  CHECK(line("fp16") == "; did you mean amp = \"fp16\"?");
  CHECK(line("precision") == "; did you mean amp = \"fp16\" or \"bf16\"?");
  CHECK(line("gpu") == "; did you mean device = \"cuda:N\"?");
  CHECK(line("finetune") == "; did you mean weights = \"FILE\" and new-head = true?");
  CHECK(line("save_period") == "; did you mean save-every = STEPS?");
  // Keys that a file for launch has are no lines of one for train.
  for (const std::string_view key : {"nproc", "num_processes", "nnodes", "rdzv_endpoint"}) {
    CHECK_MESSAGE(line(key).starts_with("; lathe launch -n N lathe train"), key);
    CHECK_MESSAGE(line(key, kLaunch).starts_with("; did you mean "), key);
  }
}

TEST_CASE("other names: commands that read a run do not offer its folder for what they write") {
  CHECK(hint("out", kTrainings) == "; did you mean --run-dir?");
  for (const Takes& takes : {kDoctor, kTips, kCkptVerify, kEval})
    CHECK(hint("out", takes).find("--run-dir?") == std::string::npos);
}

TEST_CASE("other names: no row of a table hides the word of another one, and flags are flags") {
  for (const OtherFlags& row : other_flags()) {
    CAPTURE(row.flag);
    CHECK((row.flag == "config" || find_setting(row.flag) != nullptr));
  }
  const auto for_each = [](std::string_view words, const auto& f) {
    std::istringstream in{std::string(words)};
    for (std::string word; in >> word;) f(word);
  };
  for (const Command& command : commands()) {
    const auto keys = keys_of(command.takes);
    std::set<std::string> answered;  // these come before the flags
    const auto check = [&](const std::string& word, const std::string& said) {
      CAPTURE(command.name);
      CAPTURE(word);
      if (std::ranges::find(keys, word) == keys.end()) CHECK(hint(word, command.takes) == said);
    };
    for (const Answer& row : other_answers()) {
      if (!row.is_for(command.takes)) continue;
      for_each(row.words, [&](const std::string& word) {
        answered.insert(word);
        check(word, "; " + std::string(row.text));
      });
    }
    for (const OtherFlags& row : other_flags()) {
      if (std::ranges::find(keys, row.flag) == keys.end()) continue;
      if (row.flag == "run-dir" && command.takes != kTrainings) continue;
      const std::string said =
          "; did you mean --" + std::string(row.flag) + std::string(row.text) + "?";
      for_each(row.words, [&](const std::string& word) {
        if (!answered.contains(word)) check(word, said);
      });
    }
  }
}

TEST_CASE("other names: values of other programs, in any letters") {
  Settings settings;
  const auto said = [&](std::string_view key, std::string_view value) {
    try {
      assign(settings, *find_setting(key), key, value);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Case cases[] = {{"SGD", "optimizer"},
                        {"AdamW", "optimizer"},
                        {"CosineAnnealingLR", "scheduler"},
                        {"reduce_lr_on_plateau", "scheduler"},
                        {"16-mixed", "amp"},
                        {"bfloat16", "amp"},
                        {"ResNet18", "model"}};
  const std::string_view meant[] = {"sgd",  "adamw", "cosine",  "plateau",
                                    "fp16", "bf16",  "resnet18"};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string text = said(cases[i].hint, cases[i].word);
    CHECK_MESSAGE(text.ends_with("; did you mean " + std::string(meant[i]) + "?"), text);
  }
}
