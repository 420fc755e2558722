#include "usage.h"

#include "support/spelling.h"

namespace strata::cli {
namespace {

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

Error mistake(std::string message, const CLI::App& command) {
  const std::string path = command.get_parent() == nullptr ? "strata" : "strata " + command.get_name();
  return {ErrorCode::InvalidInput, std::move(message), fmt::format("`{} --help` lists what it takes", path), {}};
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

std::optional<Error> empty_word(int count, const char* const* words) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const size_t equals = word.find('=');
    const bool cut_off = word.starts_with("-") && equals != std::string_view::npos && equals + 1 == word.size();
    if (!word.empty() && !cut_off) continue;
    const std::string_view before = cut_off ? word.substr(0, equals) : std::string_view(words[i - 1]);
    const bool is_value = cut_off || is_option(std::string(before));
    return Error{ErrorCode::InvalidInput,
                 is_value ? fmt::format("the value of {} is empty", before)
                          : fmt::format("word {} of the command line, behind '{}', is empty", i, before),
                 is_value ? fmt::format("write a value, or leave {} out", before) : "write the name, or leave it out",
                 {}};
  }
  return std::nullopt;
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error, int count, const char* const* words) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  for (const std::string& word : app.remaining()) {
    if (!is_option(word)) continue;
    return mistake(
        fmt::format("no option before the subcommand is named '{}'{}", word, did_you_mean(word, option_names(app))),
        app);
  }
  if (chosen.empty()) {
    const std::vector<std::string> names = subcommand_names(app);
    for (int i = 1; i < count; ++i) {
      if (is_option(words[i])) continue;
      return mistake(fmt::format("no subcommand is named '{}'{}", words[i], did_you_mean(words[i], names)), app);
    }
    return mistake(fmt::format("a subcommand is required: one of {}", fmt::join(names, ", ")), app);
  }
  const CLI::App& command = *chosen.back();
  const std::vector<std::string> left = command.remaining();
  for (const std::string& word : left) {
    if (!is_option(word)) continue;
    const std::string name = word.substr(0, word.find('='));
    return mistake(
        fmt::format("{} has no option '{}'{}", command.get_name(), name, did_you_mean(name, option_names(command))),
        command);
  }
  if (!left.empty()) {
    return mistake(
        fmt::format("{} takes no more files or names: '{}' is one too many", command.get_name(), left.back()), command);
  }
  for (const CLI::Option* option : command.get_options()) {
    if (static_cast<int>(option->count()) <= option->get_items_expected_max() || option->get_expected_max() == 0)
      continue;
    return mistake(fmt::format("{} is given {} times and takes one value", option->get_name(), option->count()),
                   command);
  }
  return mistake(error.what(), command);
}

}  // namespace strata::cli
