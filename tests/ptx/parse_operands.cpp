// Declarations and operands of a PTX function; see parse.h.
#include <algorithm>
#include <charconv>

#include "lathe/core/ceil_div.h"
#include "parse.h"
#include "parse_words.h"

namespace lathe::ptx {

namespace {

/// Bytes of ".b64"; 0: not a type.
size_t bytes_of_type(std::string_view type) {
  size_t bits = 0;
  if (type.size() < 3 || type[0] != '.') return 0;
  std::from_chars(type.data() + 2, type.data() + type.size(), bits);
  return bits / 8;
}

/// ".align 8 .b8 name[40]" taken apart.
struct Variable {
  size_t align = 1, bytes = 0;
  std::string name;
};

Variable variable_of(std::string_view text) {
  Variable made;
  size_t element = 0;
  const std::vector<std::string> words = split(text, ' ');
  for (size_t k = 0; k < words.size(); ++k) {
    if (words[k] == ".align" && k + 1 < words.size()) {
      made.align = static_cast<size_t>(std::stoul(words[++k]));
    } else if (const size_t bytes = bytes_of_type(words[k]); bytes != 0) {
      element = bytes;
    } else if (!words[k].starts_with('.')) {
      made.name = words[k];
    }
  }
  made.align = std::max(made.align, element);
  made.bytes = element;
  if (const size_t open = made.name.find('['); open != std::string::npos) {
    made.bytes *= static_cast<size_t>(std::stoul(made.name.substr(open + 1)));
    made.name.resize(open);
  }
  return made;
}

bool is_number(std::string_view text) {
  return !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '-');
}

/// 12, -12, 0x1f, 0f3F800000 and 0d3FF0000000000000.
bool read_number(std::string_view text, uint64_t& bits) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && std::string_view("xXfFdD").find(text[1]) != text.npos) {
    base = 16;
    text.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, base);
  if (negative) bits = -bits;
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  return error == std::errc() && (rest.empty() || rest == "U");
}

bool is_special(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find('.'));
  return plain == "%tid" || plain == "%ntid" || plain == "%ctaid" || plain == "%nctaid" ||
         plain == "%laneid";
}

}  // namespace

void Parser::declare(std::string_view statement) {
  const size_t space = statement.find_first_of(" \t");
  const std::string_view kind = statement.substr(0, space);
  const std::string_view rest = space == statement.npos ? "" : trim(statement.substr(space));
  if (kind == ".reg") {
    const size_t type_end = rest.find_first_of(" \t");
    declare_registers(rest.substr(0, type_end), rest.substr(type_end));
  } else if (kind == ".shared" || kind == ".local") {
    const Variable variable = variable_of(rest);
    if (variable.name.empty() || variable.bytes == 0) fail("cannot read " + std::string(statement));
    size_t& bytes = kind == ".shared" ? made_.shared_bytes : made_.local_bytes;
    bytes = round_up(bytes, variable.align);
    scopes_[1][variable.name] = {kind == ".shared" ? Symbol::Kind::kShared : Symbol::Kind::kLocal,
                                 static_cast<int64_t>(bytes)};
    bytes += variable.bytes;
  } else if (kind == ".param") {
    declare_param(statement);
  } else if (kind != ".pragma") {
    fail("unknown directive " + std::string(statement));
  }
}

/// %p<12> stands for %p0 to %p11.
void Parser::declare_registers(std::string_view type, std::string_view names) {
  const bool predicate = type == ".pred";
  const auto add = [&](const std::string& name) {
    int64_t number = 0;
    if (predicate) {
      number = static_cast<int64_t>(made_.predicate_names.size());
      made_.predicate_names.push_back(name);
    } else {
      number = new_register(name, type.ends_with("64"));
    }
    scopes_.back()[name] = {predicate ? Symbol::Kind::kPredicate : Symbol::Kind::kRegister, number};
  };
  for (const std::string& name : split(names)) {
    const size_t open = name.find('<');
    if (open == std::string::npos) {
      add(name);
      continue;
    }
    const unsigned long count = std::stoul(name.substr(open + 1));
    for (unsigned long k = 0; k < count; ++k) add(name.substr(0, open) + std::to_string(k));
  }
}

/// Of a kernel: at an offset of its parameter space. Of a .func, or of a call: a slot. → its name
std::string Parser::declare_param(std::string_view statement) {
  const Variable variable = variable_of(statement);
  if (variable.name.empty() || variable.bytes == 0) fail("cannot read " + std::string(statement));
  if (!is_kernel_ || scopes_.size() > 1) {
    scopes_.back()[variable.name] = {Symbol::Kind::kSlot, 0};
    return variable.name;
  }
  const size_t at = round_up(made_.param_bytes, variable.align);
  scopes_.back()[variable.name] = {Symbol::Kind::kParam, static_cast<int64_t>(at)};
  made_.param_offsets.push_back(at);
  made_.param_sizes.push_back(variable.bytes);
  made_.param_bytes = at + variable.bytes;
  return variable.name;
}

int32_t Parser::new_register(const std::string& name, bool is_wide) {
  made_.register_names.push_back(name);
  made_.is_wide.push_back(is_wide);
  return static_cast<int32_t>(made_.register_names.size() - 1);
}

int32_t Parser::constant(uint64_t bits) {
  const auto [at, is_new] =
      constant_numbers_.emplace(bits, static_cast<int32_t>(made_.constants.size()));
  if (is_new) {
    made_.constants.emplace_back();
    made_.constants.back().fill(bits);
  }
  return ~at->second;
}

int32_t Parser::slot(const std::string& name, int64_t offset) {
  const auto found = made_.slots.find({name, offset});
  if (found != made_.slots.end()) return found->second;
  const int32_t made = new_register(name);
  made_.slots[{name, offset}] = made;
  return made;
}

const Parser::Symbol* Parser::find(std::string_view name) const {
  for (size_t k = scopes_.size(); k-- > 0;) {
    const auto found = scopes_[k].find(name);
    if (found != scopes_[k].end()) return &found->second;
  }
  return nullptr;
}

int32_t Parser::operand(std::string_view text, bool predicates) {
  uint64_t bits = 0;
  if (is_number(text)) {
    if (!read_number(text, bits)) fail("cannot read the number " + std::string(text));
    return predicates ? (bits != 0 ? -2 : -1) : constant(bits);
  }
  if (text == "_") return new_register("_");
  const Symbol* symbol = find(text);
  if (symbol == nullptr && is_special(text)) {
    const int32_t reg = new_register(std::string(text));
    scopes_.front()[std::string(text)] = {Symbol::Kind::kRegister, reg};
    made_.specials.push_back({std::string(text), reg});
    return reg;
  }
  if (const auto shared = module_.shared_.find(text);
      symbol == nullptr && shared != module_.shared_.end()) {
    if (!is_kernel_) fail("shared memory in a function");
    declare(shared->second);  // where it is used first
    symbol = find(text);
  }
  if (symbol == nullptr) {
    const auto variable = module_.variables_.find(text);
    if (variable == module_.variables_.end()) fail("unknown symbol " + std::string(text));
    return constant(reinterpret_cast<uint64_t>(variable->second.data()));
  }
  const bool in_register =
      symbol->kind == Symbol::Kind::kRegister || symbol->kind == Symbol::Kind::kPredicate;
  return in_register ? static_cast<int32_t>(symbol->value)
                     : constant(static_cast<uint64_t>(symbol->value));
}

/// One operand, or those in braces, or the two of d|p.
void Parser::add_operands(Instruction& i, std::string_view text, bool predicates) {
  std::vector<std::string> parts;
  if (text.starts_with('{')) {
    parts = split(text.substr(1, text.size() - 2));
  } else {
    parts = split(text, '|');
  }
  for (const std::string& part : parts) {
    if (i.count == std::size(i.operand)) fail("too many operands");
    i.operand[i.count++] = operand(part, predicates);
  }
}

Parser::Address Parser::address(std::string_view text) const {
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  const size_t plus = text.find('+');
  if (plus == text.npos) return {std::string(trim(text)), 0};
  uint64_t offset = 0;
  if (!read_number(trim(text.substr(plus + 1)), offset))
    fail("cannot read the address " + std::string(text));
  return {std::string(trim(text.substr(0, plus))), static_cast<int64_t>(offset)};
}

}  // namespace lathe::ptx
