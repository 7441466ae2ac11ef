// The commands of tileproof: each adds its options to the command line and, when it is the one given, chooses itself.
#ifndef TILEPROOF_APP_COMMANDS_H
#define TILEPROOF_APP_COMMANDS_H

#include <functional>

namespace CLI {
class App;
}

namespace tileproof {

using Command = std::function<int()>;  // returns the exit status

void add_list(CLI::App& app, Command& chosen);
void add_check(CLI::App& app, Command& chosen);
void add_fuzz(CLI::App& app, Command& chosen);
void add_replay(CLI::App& app, Command& chosen);
void add_minimize(CLI::App& app, Command& chosen);
void add_explain(CLI::App& app, Command& chosen);
void add_compare(CLI::App& app, Command& chosen);
void add_exposure(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_agree(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);

}  // namespace tileproof

#endif
