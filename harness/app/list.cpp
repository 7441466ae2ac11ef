// tileproof list: what there is, as text or as JSON.
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/output.h"

namespace tileproof {

namespace {

using nlohmann::json;

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof list                    everything\n"
    "  tileproof list operations         tensors and parameters of every operation\n"
    "  tileproof list faults --json      for a script";

struct Arguments {
  std::string what = "all";
  bool as_json = false;
};

std::string shape_text(const TensorSpec& spec) {
  std::vector<std::string> axes;
  for (const Axis& axis : spec.axes) {
    axes.push_back(fmt::format("{}", fmt::join(axis.terms, " + ")));
  }
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

std::string range_text(const Parameter& parameter) {
  return parameter.choices.empty() ? fmt::format("{}..{}", parameter.min, parameter.max)
                                   : fmt::format("{}", fmt::join(parameter.choices, "|"));
}

json parameters_json(const std::vector<Parameter>& parameters) {
  json result = json::array();
  for (const Parameter& parameter : parameters) {
    result.push_back({{"key", parameter.key},
                      {"range", range_text(parameter)},
                      {"required", parameter.required},
                      {"meaning", parameter.meaning}});
  }
  return result;
}

// The declared keys of a tiling, and those that every tiling has on the CPU.
json tiling_json(const Operation& operation) {
  json result = parameters_json(operation.tiling_parameters());
  for (const auto& [key, meaning] : {std::pair("threads", "order of the threads of a block between barriers, cpu only"),
                                     std::pair("blocks", "order of the blocks of a grid, cpu only")}) {
    result.push_back(
        {{"key", key}, {"range", "forward|reverse|shuffled:N"}, {"required", false}, {"meaning", meaning}});
  }
  return result;
}

json operation_json(const Operation& operation) {
  constexpr std::string_view roles[] = {"in", "out", "inout"};
  json tensors = json::array();
  for (const TensorSpec& spec : operation.tensors()) {
    tensors.push_back({{"name", spec.name}, {"role", roles[static_cast<int>(spec.role)]}, {"shape", shape_text(spec)}});
  }
  return {{"name", operation.name()},
          {"summary", operation.summary()},
          {"adjoint", operation.algebra().adjoint},
          {"tensors", std::move(tensors)},
          {"parameters", parameters_json(operation.parameters())},
          {"tiling", tiling_json(operation)}};
}

json subject_json(const Subject& subject) {
  json entry{{"name", subject.name}, {"operation", subject.operation->name()}, {"limits", json::array()}};
  for (const Limit& limit : subject.limits) {
    entry["limits"].push_back(limit.text);
  }
  if (subject.fault) {
    entry["expected"] = subject.expected;
  }
  return entry;
}

json inventory() {
  json root{{"schema", "tileproof.list/1"}, {"version", TILEPROOF_VERSION}, {"operations", json::array()},
            {"subjects", json::array()},    {"properties", json::array()},  {"faults", json::array()}};
  for (const Operation* operation : operations()) {
    root["operations"].push_back(operation_json(*operation));
  }
  for (const Subject& subject : subjects()) {
    root[subject.fault ? "faults" : "subjects"].push_back(subject_json(subject));
  }
  for (const Property* property : all_properties()) {
    root["properties"].push_back({{"name", property->name()}, {"holds_when", property->holds_when()}});
  }
  return root;
}

std::string text_of(const json& value) { return value.get<std::string>(); }

std::string joined(const json& list, const char* separator) {
  return fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), separator));
}

std::string note_of(std::string_view section, const json& entry) {
  return section == "properties" ? text_of(entry["holds_when"])
         : section == "faults"   ? "found by " + joined(entry["expected"], ", ")
         : section == "subjects" ? joined(entry["limits"], "; ")
                                 : text_of(entry["summary"]);
}

// `whole`: parameters of operations too.
std::string section_text(const char* section, const json& entries, bool whole) {
  std::size_t width = 0;
  for (const json& entry : entries) {
    width = std::max(width, text_of(entry["name"]).size());
  }
  std::string out = fmt::format("{}\n", section);
  for (const json& entry : entries) {
    out += fmt::format("  {:<{}}  {}\n", text_of(entry["name"]), width, note_of(section, entry));
    if (!entry.contains("tensors")) {
      continue;
    }
    for (const json& tensor : entry["tensors"]) {
      out += fmt::format("      {:<6} {:<13} {}\n", text_of(tensor["role"]), text_of(tensor["name"]),
                         text_of(tensor["shape"]));
    }
    for (const char* kind : {"parameters", "tiling"}) {
      for (const json& parameter : whole ? entry[kind] : json::array()) {
        out += fmt::format("      {:<20} {:<26} {}{}\n", text_of(parameter["key"]) + "=", text_of(parameter["range"]),
                           kind == std::string_view("tiling") ? "tiling: " : "", text_of(parameter["meaning"]));
      }
    }
  }
  return out;
}

int list(const Arguments& a) {
  json all = inventory();
  const bool everything = a.what == "all";
  if (a.as_json) {
    if (!everything) {
      all = {{"schema", all["schema"]}, {"version", all["version"]}, {a.what, all[a.what]}};
    }
    say(all.dump(2) + "\n");
    return 0;
  }
  std::string out;
  for (const char* section : {"subjects", "operations", "properties", "faults"}) {
    if (everything || a.what == section) {
      out += section_text(section, all[section], !everything);
    }
  }
  say(out);
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("list", "what is there: subjects, operations, properties, faults");
  command.footer(kFooter);
  command.add_option("WHAT", a->what, "subjects, operations, properties or faults; default: all of them")
      ->check(CLI::IsMember({"all", "subjects", "operations", "properties", "faults"}));
  command.add_flag("--json", a->as_json, "as JSON, tileproof.list/1");
  command.callback([a, &chosen] { chosen = [a] { return list(*a); }; });
}

}  // namespace tileproof
