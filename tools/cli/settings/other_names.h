// What other programs call our commands, flags and values: the answers to names that people bring.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/settings/takes.h"

namespace lathe::cli {

/// Our command for the name of another program's, with what it needs: "train --weights FILE
/// --new-head" for "finetune". "" if none is known.
std::string_view command_for(std::string_view word);

/// "; did you mean --batch-size?" for a flag that a command lacks: ours, if the word is what other
/// programs call it, a longer name of it or a mistyped one. "" if nothing is like it.
///   word    without dashes before it; '_' is read as '-'
///   takes   what the command takes
///   keys    its flags
///   prefix  of a flag: "--", or "" for keys of a config file, where a hint is a line of one; only
///           an Answer names commands and flags there, too
std::string flag_hint(std::string_view word, const Takes& takes,
                      const std::vector<std::string_view>& keys, std::string_view prefix);

/// Words of other programs for one flag of ours. With a text it needs that value: " fp16".
struct OtherFlags {
  std::string_view flag, text, words;
};
/// Words for what is no flag of ours, and what to do instead.
struct Answer {
  std::array<const Takes*, 2> commands;
  std::string_view text, words;

  bool is_for(const Takes& takes) const;
};
/// The tables of flag_hint(): for a command the answers come first, and of two rows with a word the
/// first one.
std::span<const OtherFlags> other_flags();
std::span<const Answer> other_answers();

/// Hints of settings (Setting::hint) for values that other programs have: "; did you mean cosine?".
/// "" for all else.
std::string scheduler_hint(std::string_view text);
std::string amp_hint(std::string_view text);
/// "; did you mean the file TEXT.pt2?", or "; --weights FILE names a model", if there is such a
/// file.
std::string model_hint(std::string_view text);

}  // namespace lathe::cli
