// The recipes of --recipe: named sets of settings that were tried together. A recipe is the text
// of a config file. Every other source of settings overrides it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct TrainingRecipe {
  std::string_view name;  // "cifar10-94"
  std::string_view help;  // one line
  std::string_view text;  // a config file
  std::string_view gpu;   // more of it, which counts only for a training on a GPU
};

std::span<const TrainingRecipe> training_recipes();

/// Special values of --recipe. "none": no recipe; "list": print the recipes and do not train.
inline constexpr std::string_view kNoRecipe = "none", kListRecipes = "list";

/// "none|list|cifar10-94|…": the values that --recipe takes.
std::string_view recipe_choices();

/// The hint for an unknown name: all recipes, with what they are for.
std::string recipe_hint(std::string_view name);

/// A line for each recipe, broken into several if it has more than `width` columns.
std::string recipe_list(int width);

/// Sets `settings` as the recipe says.
/// throws: UsageError if there is no such recipe.
void apply_recipe(Settings& settings, std::string_view name, bool on_gpu);

/// "recipe cifar10-94, except model resnet20 (recipe: resnet18)": names each setting of the run
/// that differs from its recipe. On a CPU it also names the recipe's settings for a GPU. "" without
/// a recipe.
std::string recipe_remark(const Settings& settings, bool on_gpu);

}  // namespace lathe::cli
