#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "app/commands.h"
#include "app/output.h"
#include "operations.h"

namespace tileproof {

namespace {

constexpr std::size_t kLongestMessage = 1000;

// One line for a terminal, whatever the user had put into the words that it quotes.
std::string one_line(std::string message) {
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::replace_if(
      message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, '?');
  if (message.size() > kLongestMessage) {
    const std::size_t half = kLongestMessage / 2;
    message = message.substr(0, half) + " ... " + message.substr(message.size() - half);
  }
  return message;
}

int fail(const std::string& message, int status) {
  fmt::print(stderr, "tileproof: {}\n", one_line(message));
  return status;
}

std::string names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Parses; throws InputError with a way on. Returns whether help or the version was asked for, and has been printed.
bool parse(CLI::App& app, int argc, char** argv) {
  const std::string word = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
  if (argc < 2) {
    throw InputError(fmt::format("no command given, expected one of {} (tileproof --help)", names_of(app)));
  }
  if (argv[1][0] != '-' &&
      app.get_subcommands([&word](const CLI::App* command) { return command->get_name() == word; }).empty()) {
    throw InputError(fmt::format("command '{}' given, expected one of {} (tileproof --help)", word, names_of(app)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    say("tileproof " TILEPROOF_VERSION "\n");
    return true;
  } catch (const CLI::CallForHelp&) {
    const auto given = app.get_subcommands();
    say(given.empty() ? app.help() : given.front()->help());
    return true;
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{} (tileproof{} --help)", error.what(), word.empty() ? "" : " " + word));
  }
  return false;
}

int run(int argc, char** argv) {
  require_standard_files();
  CLI::App app{"tileproof: differential property tests for tiled GPU kernels"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "tileproof " TILEPROOF_VERSION);
  app.footer("\nStart with 'tileproof doctor' and 'tileproof check'; 'tileproof COMMAND --help' says more.");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  Command chosen;
  add_check(app, chosen);
  add_fuzz(app, chosen);
  add_replay(app, chosen);
  add_minimize(app, chosen);
  add_explain(app, chosen);
  add_compare(app, chosen);
  add_exposure(app, chosen);
  add_list(app, chosen);
  add_bench(app, chosen);
  add_agree(app, chosen);
  add_doctor(app, chosen);
  if (parse(app, argc, argv)) {
    return 0;
  }
  register_all_operations();
  load_subjects();
  return chosen();
}

}  // namespace

}  // namespace tileproof

int main(int argc, char** argv) {
  try {
    return tileproof::run(argc, argv);
  } catch (const tileproof::InputError& error) {
    return tileproof::fail(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return tileproof::fail("out of memory; use fewer --jobs or smaller shapes", 3);
  } catch (const std::exception& error) {
    return tileproof::fail(error.what(), 3);
  }
}
