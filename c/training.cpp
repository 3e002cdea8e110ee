// Losses, optimisers, training steps and checkpoints for C programs. Contract: lathe_c.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lathe/c/call.h"
#include "lathe/c/handles.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/optim/optimizer_names.h"
#include "lathe/optim/param_groups.h"

using namespace lathe;
using c::call, c::checked, c::clear, c::give;

namespace {

using LossFunction = Tensor (*)(const Tensor& output, const Tensor& target);

/// The loss functions that C programs name.
/// throws: ValueError for another name.
LossFunction loss_named(std::string_view name) {
  constexpr std::pair<std::string_view, LossFunction> kLosses[] = {
      {"cross_entropy", [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }},
      {"mse", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }},
      {"l1", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }},
      {"huber", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }},
      {"smooth_l1", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }},
      {"bce_with_logits", [](const Tensor& x, const Tensor& y) { return bce_with_logits(x, y); }},
  };
  std::string known;
  for (const auto& [key, function] : kLosses) {
    if (key == name) return function;
    known += concat(known.empty() ? "" : ", ", key);
  }
  LATHE_FAIL(ValueError, "the loss \"", name, "\" is not one of ", known);
}

/// "lr=0.1 momentum=0.9" → {{"lr", 0.1}, {"momentum", 0.9}}
/// throws: ValueError for a word of another form, or a name that stands twice.
std::map<std::string, double, std::less<>> parse_options(std::string_view text) {
  std::map<std::string, double, std::less<>> out;
  while (true) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return out;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
    text.remove_prefix(word.size());
    const size_t equals = word.find('=');
    double value = 0;
    bool is_number = false;
    if (equals != std::string_view::npos) {
      const char* const end = word.data() + word.size();
      const auto [rest, error] = std::from_chars(word.data() + equals + 1, end, value);
      is_number = error == std::errc() && rest == end;
    }
    LATHE_CHECK(ValueError, is_number, "the option \"", word,
                "\" does not have the form name=number");
    const bool is_new = out.emplace(word.substr(0, equals), value).second;
    LATHE_CHECK(ValueError, is_new, "the option ", word.substr(0, equals), " stands twice");
  }
}

template <class Options>
Options read_options(std::string_view text) {
  auto given = parse_options(text);
  Options options;
  std::string known;
  visit_options(options, [&]<class T>(std::string_view name, T& option, const auto&, optim::Range) {
    known += concat(known.empty() ? "" : ", ", name);
    const auto found = given.find(name);
    if (found == given.end()) return;
    const double value = found->second;
    if constexpr (std::is_same_v<T, bool>) {
      LATHE_CHECK(ValueError, value == 0 || value == 1, name, " is ", value, "; it is 0 or 1");
      option = value != 0;
    } else if constexpr (std::is_integral_v<T>) {
      constexpr double kMost = 1e9;
      LATHE_CHECK(ValueError, value == std::floor(value) && std::abs(value) <= kMost, name, " is ",
                  value, "; it is a whole number");
      option = static_cast<T>(value);
    } else {
      option = static_cast<T>(value);
    }
    given.erase(found);
  });
  LATHE_CHECK(ValueError, given.empty(), "no option has the name ", given.begin()->first,
              "; there are ", known);
  return options;
}

std::unique_ptr<optim::Optimizer> make_optimizer(std::string_view name, nn::Module& model,
                                                 std::string_view options) {
  return optim::with_optimizer(
      name,
      [&]<class Optimizer, class Options, class Group>() -> std::unique_ptr<optim::Optimizer> {
        std::vector<Group> groups;
        if constexpr (std::is_same_v<Optimizer, optim::Muon>) {
          auto [hidden, others] = optim::split_for_muon(model);
          if (!hidden.empty()) groups.push_back({.params = std::move(hidden)});
          if (!others.empty()) groups.push_back({.params = std::move(others), .use_adamw = true});
        } else {
          groups.push_back({.params = model.parameters()});
        }
        return std::make_unique<Optimizer>(std::move(groups), read_options<Options>(options));
      });
}

/// In any order: Muon has its matrices first.
bool are_same(const Tensors& a, const Tensors& b) {
  return std::ranges::is_permutation(a, b,
                                     [](const Tensor& x, const Tensor& y) { return x.is_same(y); });
}

CheckpointParts parts_of(const lathe_model* model, const lathe_optimizer* optimizer) {
  return {{"model", c::program_of(checked(model, "model"))},
          {"optimizer", *checked(optimizer, "optimizer").value}};
}

}  // namespace

lathe_status lathe_loss(const char* name, const lathe_tensor* output, const lathe_tensor* target,
                        lathe_tensor** out) {
  return call("lathe_loss", [&] {
    clear(out);
    const LossFunction loss = loss_named(c::text_of(name, "name"));
    *out = give(loss(checked(output, "output").value, checked(target, "target").value));
  });
}

lathe_status lathe_optimizer_new(lathe_model* model, const char* name, const char* options,
                                 lathe_optimizer** out) {
  return call("lathe_optimizer_new", [&] {
    clear(out);
    *out = give(std::make_unique<lathe_optimizer>(
        make_optimizer(c::text_of(name, "name"), c::program_of(checked(model, "model")),
                       options == nullptr ? "" : options)));
  });
}

lathe_status lathe_optimizer_lr(const lathe_optimizer* optimizer, double* out) {
  return call("lathe_optimizer_lr", [&] {
    clear(out);
    *out = checked(optimizer, "optimizer").value->lr();
  });
}

lathe_status lathe_optimizer_set_lr(lathe_optimizer* optimizer, double lr) {
  return call("lathe_optimizer_set_lr", [&] { checked(optimizer, "optimizer").value->set_lr(lr); });
}

lathe_status lathe_optimizer_step(lathe_optimizer* optimizer) {
  return call("lathe_optimizer_step", [&] { checked(optimizer, "optimizer").value->step(); });
}

lathe_status lathe_optimizer_zero_gradients(lathe_optimizer* optimizer) {
  return call("lathe_optimizer_zero_gradients",
              [&] { checked(optimizer, "optimizer").value->zero_grad(); });
}

lathe_status lathe_optimizer_free(lathe_optimizer* optimizer) {
  return call("lathe_optimizer_free", [&] { c::destroy(optimizer, "optimizer"); });
}

lathe_status lathe_train_step(lathe_model* model, lathe_optimizer* optimizer, const char* loss,
                              int32_t n_inputs, const lathe_tensor* const* inputs,
                              const lathe_tensor* target, double* out) {
  return call("lathe_train_step", [&] {
    if (out != nullptr) *out = 0;
    jit::Program& program = c::program_of(checked(model, "model"));
    optim::Optimizer& updates = *checked(optimizer, "optimizer").value;
    const Tensor& wanted = checked(target, "target").value;
    const Tensors batch = c::tensors_of(n_inputs, inputs, "inputs");
    const LossFunction loss_of = loss_named(c::text_of(loss, "loss"));
    LATHE_CHECK(ValueError, are_same(program.parameters(), updates.params()),
                "the optimiser is one of another model");
    updates.zero_grad();
    const Tensors outputs = program.run(batch);
    LATHE_CHECK(StateError, !outputs.empty(), "the model has no output");
    const Tensor value = loss_of(outputs[0], wanted);
    value.backward();
    updates.step();
    if (out != nullptr) *out = value.item<double>();
  });
}

lathe_status lathe_checkpoint_save(const char* path, const lathe_model* model,
                                   const lathe_optimizer* optimizer) {
  return call("lathe_checkpoint_save", [&] {
    save_checkpoint(std::string(c::text_of(path, "path")), parts_of(model, optimizer));
  });
}

lathe_status lathe_checkpoint_load(const char* path, lathe_model* model,
                                   lathe_optimizer* optimizer) {
  return call("lathe_checkpoint_load", [&] {
    load_checkpoint(std::string(c::text_of(path, "path")), parts_of(model, optimizer));
  });
}
