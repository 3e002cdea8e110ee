// The table of recipes, and how a run differs from its recipe.
#include "lathe/tools/cli/settings/training_recipes.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/config_file.h"

namespace lathe::cli {
namespace {

// A name stays for ever: config.toml and the checkpoints of its runs have it, and a run with a name
// that is not here cannot be read.
constexpr TrainingRecipe kRecipes[] = {
    // A linear rise over a fifth of the run and a linear fall to 0, steps of 512 images, Nesterov
    // momentum of 0.9, a weight decay of 5e-4, label smoothing of 0.2, crop, flip and a square of
    // 8 x 8 cut out: so trains D. Page, "How to train your ResNet" (myrtle.ai, 2018 and 2019; a
    // ResNet of 9 layers, 24 epochs, peak 0.4), and so does J. S. Wind with a plain network of 8
    // layers (johanwind.github.io, 2022-12-28: 94.02 % in the mean of 40 runs; 24 epochs, peak
    // 0.6). Jordan 2024 (arXiv:2404.00498) has the same smoothing and momentum. A ResNet-18 has
    // twice their weights; it gets their epochs.
    {"cifar10-94", "ResNet-18 on CIFAR-10, made for 94 % in 24 epochs, in half types on a GPU",
     "dataset = cifar10\n"
     "model = resnet18\n"
     "augment = [crop, flip, cutout]\n"
     "epochs = 24\n"
     "batch-size = 512\n"
     "lr = 0.1  # at 128 images in a step; 0.4 at 512\n"
     "lr-scale-batch = true\n"
     "scheduler = linear\n"
     "warmup-epochs = 5\n"
     "optimizer = sgd\n"
     "momentum = 0.9\n"
     "nesterov = true\n"
     "weight-decay = 5e-4\n"
     "no-decay-norm = true\n"
     "label-smoothing = 0.2\n"
     "layout = nhwc\n",
     "amp = fp16\n"
     "data-cache = gpu\n"},
    // Jordan's airbench94 with Muon (github.com/KellerJordan/cifar10-airbench: 94.01 % in the mean
    // of 200 runs) has the sum of a step's losses: rates of 0.053 for biases and of 0.67 for a head
    // whose results are divided by 256. For the mean, and a head without the division, these are
    // 0.053 * 2000 and 0.67 * 2000 / 256^2. The weight decay takes 0.004 of the weights in a step
    // at the peak. There the biases of `whiten` rest after 3 epochs; here they do not.
    {"cifar10-94-fast", "CifarNet on CIFAR-10, made for 94 % in 8 epochs",
     "dataset = cifar10\n"
     "model = cifarnet\n"
     "augment = [shift, alternating-flip]\n"
     "epochs = 8\n"
     "batch-size = 2000\n"
     "drop-last = true\n"
     "lr = 0.24\n"
     "bias-lr = 106\n"
     "head-lr = 0.0204\n"
     "scheduler = linear\n"
     "optimizer = muon\n"
     "muon-rest = sgd\n"
     "momentum = 0.6\n"
     "weight-decay = 0.0167\n"
     "label-smoothing = 0.2\n"
     "eval-every = 0\n"
     "tta = shift\n"
     "layout = nhwc\n",
     "amp = fp16\n"
     "data-cache = gpu\n"},
    // The network, images and epochs of Jordan's airbench96 (arXiv:2404.00498; 96.03 % in the mean
    // of 400 runs), with the optimizer of cifar10-94-fast. airbench96 itself has SGD, Lookahead and
    // a batch of 1024. Its rates are 9 / 11.5 of airbench94's; so are these of cifar10-94-fast's,
    // for a head of 512 in place of 256 filters: 0.67 * 2000 / 512^2 * 9 / 11.5. Three more
    // differences: there the cut-out square lies in the image, here the image's border may cut it
    // off; there batch norms have a momentum of 0.1, here of 0.4; there the biases of `whiten` rest
    // after 3 epochs, here they do not.
    {"cifar10-96", "Wide CifarNet on CIFAR-10, made for 96 % in 37 epochs (not run to its end yet)",
     "dataset = cifar10\n"
     "model = cifarnet_wide\n"
     "augment = [shift:4, alternating-flip, cutout:12]\n"
     "epochs = 37\n"
     "batch-size = 2000\n"
     "drop-last = true\n"
     "lr = 0.19\n"
     "bias-lr = 83\n"
     "head-lr = 0.004\n"
     "scheduler = linear\n"
     "optimizer = muon\n"
     "muon-rest = sgd\n"
     "momentum = 0.6\n"
     "weight-decay = 0.0167\n"
     "label-smoothing = 0.2\n"
     "eval-every = 0\n"
     "tta = shift\n"
     "layout = nhwc\n",
     "amp = fp16\n"
     "data-cache = gpu\n"},
    // The network, batch size, first learning rate and images of He et al. 2016 (arXiv:1512.03385,
    // section 4.2: 91.25 % after 64,000 steps, which are 164 epochs). The learning rate falls along
    // a cosine (Loshchilov and Hutter 2017, arXiv:1608.03983) in place of two steps, the momentum
    // is Nesterov's, and the weight decay 5e-4 in place of 1e-4: so fewer epochs are enough.
    {"cifar10-resnet20",
     "ResNet-20 on CIFAR-10, made for the 91.25 % of He et al. (2016) in 64 epochs",
     "dataset = cifar10\n"
     "model = resnet20\n"
     "augment = [crop, flip]\n"
     "epochs = 64\n"
     "batch-size = 128\n"
     "lr = 0.1\n"
     "scheduler = cosine\n"
     "optimizer = sgd\n"
     "momentum = 0.9\n"
     "nesterov = true\n"
     "weight-decay = 5e-4\n"
     "layout = nhwc\n",
     "amp = fp16\n"
     "data-cache = gpu\n"},
};

std::vector<ConfigEntry> entries_of(const TrainingRecipe& recipe, bool on_gpu) {
  std::vector<ConfigEntry> entries = parse_config(recipe.text, recipe.name);
  if (on_gpu) std::ranges::move(parse_config(recipe.gpu, recipe.name), std::back_inserter(entries));
  return entries;
}

const TrainingRecipe& find_recipe(std::string_view name) {
  const auto* const found = std::ranges::find(kRecipes, name, &TrainingRecipe::name);
  if (found != std::end(kRecipes)) return *found;
  throw UsageError(formatted("--recipe: there is no \"{}\"{}", name, recipe_hint(name)));
}

}  // namespace

std::span<const TrainingRecipe> training_recipes() { return kRecipes; }

std::string_view recipe_choices() {
  static const std::string all = [] {
    std::string text = formatted("{}|{}", kNoRecipe, kListRecipes);
    for (const TrainingRecipe& recipe : kRecipes) text += formatted("|{}", recipe.name);
    return text;
  }();
  return all;
}

std::string recipe_hint(std::string_view name) {
  std::vector<std::string_view> names;
  std::string all;
  for (const TrainingRecipe& recipe : kRecipes) {
    names.push_back(recipe.name);
    all += formatted("; {}: {}", recipe.name, recipe.help);
  }
  return all + suggestion(name, names);
}

std::string recipe_list(int width) {
  constexpr size_t kNames = 20;  // columns
  std::string text;
  for (const TrainingRecipe& recipe : kRecipes) {
    text += formatted("{:<{}}", recipe.name, kNames);
    append_wrapped(text, recipe.help, kNames, kNames, width);
  }
  return text;
}

void apply_recipe(Settings& settings, std::string_view name, bool on_gpu) {
  for (const ConfigEntry& entry : entries_of(find_recipe(name), on_gpu))
    assign(settings, *find_setting(entry.key), formatted("{}: {}", name, entry.key), entry.value);
}

std::string recipe_remark(const Settings& settings, bool on_gpu) {
  if (settings.recipe == kNoRecipe) return "";
  const TrainingRecipe& recipe = find_recipe(settings.recipe);
  Settings as_written;
  apply_recipe(as_written, recipe.name, on_gpu);
  std::vector<std::string> others;
  for (const ConfigEntry& entry : entries_of(recipe, on_gpu)) {
    const Setting& setting = *find_setting(entry.key);
    const std::string now = value_text(settings, setting), then = value_text(as_written, setting);
    if (now != then) others.push_back(formatted("{} {} (recipe: {})", setting.key, now, then));
  }
  std::string text = formatted("recipe {}", recipe.name);
  if (!others.empty()) text += formatted(", except {}", joined(others, ", "));
  if (!on_gpu && !recipe.gpu.empty()) {
    std::vector<std::string> left_out;
    for (const ConfigEntry& entry : parse_config(recipe.gpu, recipe.name))
      left_out.push_back(formatted("{} {}", entry.key, entry.value));
    text += formatted("; for a GPU only: {}", joined(left_out, ", "));
  }
  return text;
}

}  // namespace lathe::cli
