// What other programs call our commands, flags and values: hints for users who type such a name.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/takes.h"

namespace lathe::cli {

/// The command of lathe, with its flags, for a command name of another program: "train --weights
/// FILE --new-head" for "finetune". "" if none is known.
std::string_view command_for(std::string_view word);

/// A hint such as "; did you mean --batch-size?" for a flag that the command lacks. It names a flag
/// of the command if `word` is another program's name for it, a longer form of it, or one of these
/// mistyped. "" if nothing is similar.
///   word    without leading dashes; '_' is read as '-'
///   takes   the settings that the command takes
///   keys    the command's flags
///   prefix  "--" or "lathe train --" for flags; "" for keys of a config file, where the hint is a
///           line of such a file
std::string flag_hint(std::string_view word, const Takes& takes,
                      const std::vector<std::string_view>& keys, std::string_view prefix);

/// Other programs' names for one `flag` of lathe, such as fp16 for --amp fp16. `words` has these
/// names, separated by spaces. `text` is what follows the flag: " fp16".
struct OtherFlags {
  std::string_view flag, text, words;
};
/// Words of other programs for which lathe has no flag, and a `text` that says what to do instead.
struct Answer {
  std::array<const Takes*, 2> commands;
  std::string_view text, words;

  bool is_for(const Takes& takes) const;
};
/// The tables that flag_hint() searches: first other_answers(), then other_flags(). It uses the
/// first row that has the word.
std::span<const OtherFlags> other_flags();
std::span<const Answer> other_answers();

/// Hints (Setting::hint) for other programs' values of a setting: "; did you mean cosine?". "" for
/// any other text.
std::string scheduler_hint(std::string_view text);
std::string amp_hint(std::string_view text);
/// "; did you mean the file TEXT.pt2?" or "; did you mean --weights FILE?", if there is such a
/// file.
std::string model_hint(std::string_view text);

}  // namespace lathe::cli
