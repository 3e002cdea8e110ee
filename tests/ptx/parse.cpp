// See parse.h; declarations and operands are read by parse_operands.cpp.
#include "parse.h"

#include <algorithm>
#include <utility>

#include "instructions.h"
#include "lathe/core/error.h"
#include "parse_words.h"

namespace lathe::ptx {

namespace {

/// Where the function ends: behind the brace that closes its body.
size_t end_of(std::string_view text, size_t at) {
  at = text.find('{', at);
  for (size_t depth = 0; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
  }
  return text.size();
}

}  // namespace

Parser::Parser(const Module& module, const std::string& name, size_t at, size_t local_base)
    : module_(module), local_base_(local_base) {
  const std::string_view all = module.text_;
  text_ = all.substr(at, end_of(all, at) - at);
  made_.name = name;
  made_.local_bytes = local_base;
  is_kernel_ = text_.substr(0, text_.find('\n')).find(".entry") != text_.npos;
  for (size_t from = 0; from < text_.size();) {
    const size_t end = std::min(text_.find('\n', from), text_.size());
    made_.lines.emplace_back(text_.substr(from, end - from));
    from = end + 1;
  }
  scopes_.emplace_back();
}

void Parser::fail(const std::string& what) const {
  LATHE_FAIL(ValueError, made_.name, ", PTX line ", int64_t{line_}, ": ", what);
}

Function Parser::finish() {
  read_header();
  read_body();
  line_ = static_cast<uint32_t>(made_.lines.size());
  for (const auto& [instruction, label] : jumps_) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) fail("no label " + label);
    made_.code[instruction].target = found->second;
  }
  Instruction last;  // the end of the body returns
  last.control = Control::kReturn;
  last.line = line_;
  made_.code.push_back(last);
  return std::move(made_);
}

/// Parameters between parentheses, and directives before the body.
void Parser::read_header() {
  body_ = text_.find('{') + 1;
  const std::string_view header = text_.substr(0, body_ - 1);
  const size_t behind =
      is_kernel_ ? header.npos : header.find_first_not_of(' ', header.find(".func") + 5);
  bool output = behind != header.npos && header[behind] == '(';  // NVRTC writes two spaces
  for (size_t open = header.find('('); open != header.npos; open = header.find('(', open + 1)) {
    const size_t close = header.find(')', open);
    for (const std::string& text : split(header.substr(open + 1, close - open - 1))) {
      const std::string name = declare_param(text);
      if (!is_kernel_) (output ? made_.outputs : made_.inputs).push_back(name);
    }
    output = false;
  }
  if (const size_t most = header.find(".maxntid"); most != header.npos) {
    made_.max_threads = 1;
    for (const std::string& size :
         split(header.substr(most + 8, header.find('\n', most) - most - 8))) {
      made_.max_threads *= static_cast<size_t>(std::stoul(size));
    }
  }
  line_ += static_cast<uint32_t>(std::ranges::count(header, '\n'));
}

/// Cuts the body into statements, labels and scopes.
void Parser::read_body() {
  size_t at = body_;
  scopes_.emplace_back();
  while (at < text_.size()) {
    const char c = text_[at];
    if (c == '\n') ++line_;
    if (c == ' ' || c == '\t' || c == '\n') {
      ++at;
    } else if (text_.substr(at, 2) == "//") {
      at = std::min(text_.find('\n', at), text_.size());
    } else if (c == '{') {
      scopes_.emplace_back();
      ++at;
    } else if (c == '}') {
      scopes_.pop_back();
      ++at;
    } else {
      const size_t end = std::min(text_.find_first_of(";:", at), text_.size());
      const std::string_view statement = text_.substr(at, end - at);
      if (end < text_.size() && text_[end] == ':') {
        labels_[std::string(statement)] = static_cast<uint32_t>(made_.code.size());
      } else {
        read_statement(statement);
      }
      line_ += static_cast<uint32_t>(std::ranges::count(statement, '\n'));
      at = end + 1;
    }
  }
}

void Parser::read_statement(std::string_view statement) {
  if (statement.starts_with('.')) {
    declare(statement);
  } else if (!statement.empty()) {
    read_instruction(statement);
  }
}

void Parser::read_instruction(std::string_view statement) {
  Instruction i;
  i.line = line_;
  if (statement.starts_with('@')) {
    const size_t space = statement.find(' ');
    i.guard_negated = statement[1] == '!';
    i.guard =
        operand(statement.substr(i.guard_negated ? 2 : 1, space - (i.guard_negated ? 2 : 1)), true);
    statement = trim(statement.substr(space));
  }
  const size_t space = std::min(statement.find_first_of(" \t\n"), statement.size());
  std::string name(statement.substr(0, space));
  const std::string_view rest = trim(statement.substr(space));
  const std::vector<std::string> operands = split(rest);
  if (name == "bra" || name == "bra.uni") {
    read_branch(i, rest);
  } else if (name == "ret" || name == "ret.uni" || name == "exit") {
    if (name == "exit" && !is_kernel_) fail("exit in a function");
    i.control = Control::kReturn;
  } else if (name == "call" || name == "call.uni") {
    read_call(i, rest);
  } else if (name == "bar.sync" && rest == "0" && i.guard == -1) {
    i.control = Control::kBarrier;
  } else {
    if (i.guard != -1 && (name.starts_with("shfl.") || name.starts_with("vote.")))
      fail("a guarded " + name);
    if (name.starts_with("ld.") || name.starts_with("st.") || name.starts_with("atom.")) {
      read_memory(i, name, operands);
    } else if (name.starts_with("mov.b") && rest.find('{') != rest.npos) {
      read_move(i, name, operands);
    } else {
      for (const std::string& text : operands) add_operands(i, text, name.ends_with(".pred"));
    }
    i.run = find_meaning(name);
    if (i.run == nullptr) fail(concat("unknown instruction ", name, " in `", statement, "`"));
    if (name.starts_with("shfl.sync.") || name.starts_with("vote.sync.")) {
      i.control = Control::kWarpBarrier;
    }
  }
  made_.code.push_back(i);
}

void Parser::read_branch(Instruction& i, std::string_view operands) {
  i.control = Control::kBranch;
  jumps_.emplace_back(made_.code.size(), std::string(operands));
}

/// The names of vectors: mov.b64 {%r1, %r2}, %rd3 is unpack.b64.2.
void Parser::read_move(Instruction& i, std::string& name,
                       const std::vector<std::string>& operands) {
  if (operands.size() != 2) fail("a mov of " + std::to_string(operands.size()) + " operands");
  for (const std::string& text : operands) add_operands(i, text, false);
  const bool unpacks = operands[0].starts_with('{');
  name = concat(unpacks ? "unpack" : "pack", name.substr(3), ".", int64_t{i.count - 1});
}

/// Takes the space and the cache hint out of the name, and the address apart.
void Parser::read_memory(Instruction& i, std::string& name,
                         const std::vector<std::string>& operands) {
  std::string short_name;
  for (const std::string& word : split(name, '.')) {
    if (word == "shared") i.space = Space::kShared;
    if (word == "local") i.space = Space::kLocal;
    if (word == "param") i.space = Space::kParam;
    if (word == "v2" || word == "v4") i.vector = static_cast<uint8_t>(word[1] - '0');
    const bool known = word == "shared" || word == "local" || word == "param" || word == "global" ||
                       word == "nc" || word == "v2" || word == "v4";
    if (!known) short_name += (short_name.empty() ? "" : ".") + word;
  }
  if (name.starts_with("atom.") && i.space != Space::kGeneric) fail("unknown instruction " + name);
  name = short_name;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k].starts_with('[')) {
      add_operands(i, operands[k], false);
      continue;
    }
    const Address at = address(operands[k]);
    const Symbol* symbol = find(at.base);
    if (symbol != nullptr && symbol->kind == Symbol::Kind::kSlot) {  // of a call: a register
      if (i.vector != 1) fail("a vector in a call's parameters");
      i.operand[i.count++] = slot(at.base, at.offset);
      name = "mov" + name.substr(2);  // there is none of bytes
    } else {
      i.operand[i.count++] = operand(at.base, false);
      i.offset = at.offset;
    }
  }
  if (i.space == Space::kParam && name.starts_with("st.")) fail("a store to a kernel's parameter");
}

/// call.uni (results), name, (arguments)
void Parser::read_call(Instruction& i, std::string_view operands) {
  std::vector<std::string> results, arguments;
  std::string name;
  for (const std::string& part : split(operands)) {
    if (!part.starts_with('(')) {
      name = part;
    } else {
      (name.empty() ? results : arguments) =
          split(std::string_view(part).substr(1, part.size() - 2));
    }
  }
  const auto found = module_.functions_.find(name);
  if (found == module_.functions_.end()) fail("no function " + name);
  Call call;
  auto callee = std::make_shared<const Function>(
      parse_function(module_, name, found->second, made_.local_bytes));
  if (callee->inputs.size() != arguments.size() || callee->outputs.size() != results.size()) {
    fail("a call of " + name + " with other parameters than it has");
  }
  for (const auto& [key, reg] : callee->slots) {
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (callee->inputs[k] == key.first)
        call.arguments.emplace_back(slot(arguments[k], key.second), reg);
    }
    for (size_t k = 0; k < results.size(); ++k) {
      if (callee->outputs[k] == key.first)
        call.results.emplace_back(reg, slot(results[k], key.second));
    }
  }
  made_.local_bytes = callee->local_bytes;
  call.function = std::move(callee);
  i.control = Control::kCall;
  i.callee = static_cast<int32_t>(made_.callees.size());
  made_.callees.push_back(std::move(call));
}

Function parse_function(const Module& module, const std::string& name, size_t at,
                        size_t local_base) {
  return Parser(module, name, at, local_base).finish();
}

}  // namespace lathe::ptx
