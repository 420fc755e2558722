#include "completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "commands.h"

namespace strata::cli {
namespace {

/// What an option or a name may be followed by.
enum class Takes { Nothing, Choice, Number, File };

struct Entry {
  std::vector<std::string> names;  ///< "--format"; of what has no option's name: its own
  std::string help;
  Takes takes = Takes::Nothing;
  std::vector<std::string> choices;
};

struct Described {
  std::string name, help;
  std::vector<Entry> options, operands;
};

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= words.size();) {
    const size_t end = std::min(words.find(',', begin), words.size());
    all.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

Entry entry_of(const CLI::Option& option) {
  Entry made;
  for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
  if (made.names.empty()) made.names.push_back(option.get_name());
  made.help = option.get_description();
  if (option.get_items_expected_max() == 0) return made;
  // "TEXT:{text,svg,html}", as --help prints it.
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}', open);
  if (open != std::string::npos && close != std::string::npos) {
    made.takes = Takes::Choice;
    made.choices = split(type.substr(open + 1, close - open - 1));
    return made;
  }
  constexpr std::string_view kNumbers[] = {"INT", "UINT", "FLOAT", "SECONDS", "BYTES"};
  const bool number = std::any_of(std::begin(kNumbers), std::end(kNumbers),
                                  [&](std::string_view name) { return type.starts_with(name); });
  made.takes = number ? Takes::Number : Takes::File;
  return made;
}

Described described(const CLI::App& app) {
  Described made{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    const bool named = !option->get_lnames().empty() || !option->get_snames().empty();
    (named ? made.options : made.operands).push_back(entry_of(*option));
  }
  return made;
}

std::vector<Described> commands_of(const CLI::App& app) {
  std::vector<Described> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    all.push_back(described(*command));
  return all;
}

std::vector<std::string> names_of(const std::vector<Entry>& options) {
  std::vector<std::string> names;
  for (const Entry& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// In single quotes, for shells; `inside` is what a quote within becomes.
std::string quoted(const std::string& text, std::string_view inside) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string(inside) : std::string(1, c);
  return made + "'";
}

/// With a backslash before each of `special`.
std::string escaped(const std::string& text, std::string_view special) {
  std::string made;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) made += '\\';
    made += c;
  }
  return made;
}

}  // namespace

std::string bash_completions(const CLI::App& app) {
  const std::vector<Described> commands = commands_of(app);
  std::vector<std::string> names;
  std::string values, options, operands;
  for (const Described& command : commands) {
    names.push_back(command.name);
    for (const Entry& option : command.options) {
      if (option.takes == Takes::Nothing) continue;
      std::vector<std::string> after;
      for (const std::string& name : option.names) after.push_back(fmt::format("'{} {}'", command.name, name));
      const std::string action = option.takes == Takes::Choice
                                     ? fmt::format("words '{}'", fmt::join(option.choices, " "))
                                 : option.takes == Takes::File ? "files"
                                                               : ":";
      values +=
          fmt::format("    {}) _strata_{}; return ;;\n", fmt::join(after, "|"), action == ":" ? "nothing" : action);
    }
    options +=
        fmt::format("    {}) _strata_words '{}'; return ;;\n", command.name, fmt::join(names_of(command.options), " "));
    for (const Entry& operand : command.operands) {
      if (operand.takes == Takes::Choice)
        operands +=
            fmt::format("    {}) _strata_words '{}'; return ;;\n", command.name, fmt::join(operand.choices, " "));
    }
  }
  return fmt::format(
      R"(# Completions of strata for bash, by `strata completions bash`. Load them with: . <(strata completions bash)
_strata_words() {{ COMPREPLY=($(compgen -W "$1" -- "$word")); }}
_strata_files() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
}}
_strata_nothing() {{ :; }}
_strata() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command= one
  COMPREPLY=()
  # bash takes --option=value apart.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ $one != -* ]]; then
      command=$one
      break
    fi
  done
  if [[ -z $command ]]; then
    if [[ $word == -* ]]; then _strata_words '{}'; else _strata_words '{}'; fi
    return
  fi
  case "$command $before" in
{}  esac
  if [[ $word == -* ]]; then
    case $command in
{}    esac
  fi
  case $command in
{}  esac
  _strata_files
}}
complete -F _strata strata
)",
      fmt::join(names_of(described(app).options), " "), fmt::join(names, " "), values, options, operands);
}

std::string zsh_completions(const CLI::App& app) {
  const auto spec_text = [](const std::string& text) { return escaped(text, "[]:\\"); };
  const auto value_of = [](const Entry& entry) {
    return entry.takes == Takes::Choice ? fmt::format(":value:({})", fmt::join(entry.choices, " "))
           : entry.takes == Takes::File ? std::string(":file:_files")
                                        : std::string(":number: ");
  };
  std::string names, cases;
  for (const Described& command : commands_of(app)) {
    names += fmt::format("    {}\n", quoted(command.name + ":" + escaped(command.help, ":\\"), R"('\'')"));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const Entry& option : command.options) {
      for (const std::string& name : option.names) {
        const std::string argument = option.takes == Takes::Nothing ? "" : value_of(option);
        // --option=value and --option value both do.
        const std::string equals = argument.empty() || !name.starts_with("--") ? "" : "=";
        cases += " \\\n        " +
                 quoted(fmt::format("*{}{}[{}]{}", name, equals, spec_text(option.help), argument), R"('\'')");
      }
    }
    // One is of all that are left, however many there are.
    if (!command.operands.empty())
      cases += " \\\n        " + quoted("*" + value_of(command.operands.front()), R"('\'')");
    cases += "\n      ;;\n";
  }
  return fmt::format(R"(#compdef strata
# Completions of strata for zsh, by `strata completions zsh`. Load them with: source <(strata completions zsh)
_strata() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [[ ${{funcstack[1]}} == _strata ]]; then _strata "$@"; else compdef _strata strata; fi
)",
                     names, cases);
}

std::string fish_completions(const CLI::App& app) {
  const auto words = [](const std::string& text) { return quoted(escaped(text, "\\"), R"(\')"); };
  std::string lines =
      "# Completions of strata for fish, by `strata completions fish`. Load them with: strata completions fish | "
      "source\n";
  for (const Described& command : commands_of(app)) {
    lines +=
        fmt::format("complete -c strata -n __fish_use_subcommand -f -a {} -d {}\n", command.name, words(command.help));
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name);
    for (const Entry& option : command.options) {
      std::string line = "complete -c strata " + when;
      for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes == Takes::Choice) line += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      if (option.takes == Takes::Number) line += " -x";
      if (option.takes == Takes::File) line += " -r -F";
      lines += line + " -d " + words(option.help) + "\n";
    }
    for (const Entry& operand : command.operands) {
      if (operand.takes == Takes::Choice)
        lines += fmt::format("complete -c strata {} -f -a '{}'\n", when, fmt::join(operand.choices, " "));
    }
    if (command.operands.empty()) lines += fmt::format("complete -c strata {} -f\n", when);
  }
  return lines;
}

void add_completions(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand("completions", "Print a shell's completions of this command line");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app, &action] {
    action = [shell, &app]() -> Result<int> {
      const std::string script = *shell == "bash"  ? bash_completions(app)
                                 : *shell == "zsh" ? zsh_completions(app)
                                                   : fish_completions(app);
      fmt::print("{}", script);
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
