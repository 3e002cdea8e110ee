// The recipes of --recipe: settings that were found to go together, each under a name. A recipe is
// the text of a config file, and weaker than every other source of settings.
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

/// What --recipe is without one, and what it is given to see them instead of training.
inline constexpr std::string_view kNoRecipe = "none", kListRecipes = "list";

/// "none|list|cifar10-94|…": what --recipe may be given.
std::string_view recipe_choices();

/// What is said of a name that is none of these: all recipes, with what they are for.
std::string recipe_hint(std::string_view name);

/// A line for each recipe, or more where it has more than `width` columns.
std::string recipe_list(int width);

/// Gives the settings of a recipe to `settings`.
/// throws: UsageError if there is no such recipe.
void apply_recipe(Settings& settings, std::string_view name, bool on_gpu);

/// "recipe cifar10-94, except model resnet20 (recipe: resnet18)": where the settings of a run are
/// not those of its recipe. On a CPU also which of them are for a GPU; "" without a recipe.
std::string recipe_remark(const Settings& settings, bool on_gpu);

}  // namespace lathe::cli
