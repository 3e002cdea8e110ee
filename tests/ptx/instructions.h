// The instructions that the interpreter knows, by their names with all modifiers. Source of the
// meanings: NVIDIA, PTX ISA 9.0, chapter 9.7. What starts with bra, call, ret or bar directs a warp
// and is in run.cpp.
#pragma once

#include <string>
#include <unordered_map>

#include "program.h"

namespace lathe::ptx {

using Table = std::unordered_map<std::string, Meaning>;

/// "add.rn.f32" → what it does; null: not known.
Meaning find_meaning(const std::string& name);

void add_moves(Table& table);
void add_integers(Table& table);
void add_floats(Table& table);
void add_conversions(Table& table);
void add_memory(Table& table);
void add_warp_wide(Table& table);

}  // namespace lathe::ptx
