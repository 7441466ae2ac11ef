// tileproof exposure: does a model reach the shapes on which a subject fails, and under which tilings?
#include "search/exposure.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/shipped_recipes.h"
#include "record/output_file.h"
#include "record/record.h"
#include "search/corpus.h"
#include "search/interrupt.h"
#include "search/worker_pool.h"

namespace tileproof {

namespace {

using nlohmann::json;

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof exposure 'cpu/*@head_mask_all' --model config.json --tp 1,2,4,8\n"
    "  tileproof exposure cpu/mla_rope_q_fwd --config num_attention_heads=96 --config qk_nope_head_dim=128 \\\n"
    "      --config qk_rope_head_dim=64 --tp 8 --cp 1,2 --tiling block_h=4,8,16 --set layout=thd\n"
    "\nModes, layouts and ranks that nothing fixes are all tried. Without a model, only the shipped recipes are.\n"
    "\nExit: 0 no shape of the model (without one: no shipped recipe) fails, 1 some do, 2 bad usage, nothing judged,\n"
    "or the time was up before a shape failed; 3 the environment or the harness failed; 128 + N signal N ended it\n"
    "(the table so far is printed).";

struct Arguments {
  std::vector<std::string> subjects, config, set, tilings;
  std::optional<std::string> model, json, time;
  std::string device = "auto", tp = "1", cp = "1", jobs = "0", timeout = "10s";
};

// What one subject makes of the shapes of the model and of the recipes.
struct SubjectExposure {
  const Subject* subject = nullptr;
  std::vector<Tiling> tilings;
  std::vector<ReachedShape> model_shapes, recipe_shapes;
  std::vector<std::vector<Exposed>> model, recipes;
};

std::vector<std::int64_t> sizes(const char* option, const std::string& text) {
  std::vector<std::int64_t> result;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    result.push_back(static_cast<std::int64_t>(whole_number(option, word, 1, 4096)));
  }
  if (result.empty()) {
    throw InputError(fmt::format("{} '{}' given, expected sizes such as 1,2,4,8", option, text));
  }
  return result;
}

// A misspelt key would silently leave the shape as it is.
void require_key(const char* option, const std::string& word, const std::set<std::string>& known) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || !known.contains(word.substr(0, equals))) {
    throw InputError(
        fmt::format("{} '{}' given, expected KEY=VALUE with one of {}", option, word, fmt::join(known, ", ")));
  }
}

ModelRecipe read_recipe(const Arguments& a, const std::vector<const Subject*>& subjects) {
  std::set<std::string> config_keys;
  std::set<std::string> parameters;
  for (const Subject* subject : subjects) {
    for (const Parameter& parameter : subject->operation->parameters()) {
      parameters.insert(parameter.key);
      config_keys.insert(parameter.config_keys.begin(), parameter.config_keys.end());
    }
  }
  ModelRecipe recipe;
  if (a.model) {
    recipe.config = read_config(*a.model);
  }
  for (const std::string& word : a.config) {
    require_key("--config", word, config_keys);
    recipe.config[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  for (const std::string& word : a.set) {
    require_key("--set", word, parameters);
  }
  recipe.set = a.set;
  recipe.tensor_parallel = sizes("--tp", a.tp);
  recipe.context_parallel = sizes("--cp", a.cp);
  return recipe;
}

SubjectExposure expose_subject(const Arguments& a, const Subject& subject, const std::optional<ModelRecipe>& recipe,
                               const std::vector<Case>& recipes, const Isolation& isolation) {
  SubjectExposure result;
  result.subject = &subject;
  std::vector<TilingChoice> choices;
  for (const std::string& word : a.tilings) {
    choices.push_back(parse_tiling_choice(*subject.operation, word));
  }
  result.tilings = tilings_of(subject, choices);
  if (recipe) {
    result.model_shapes = shapes_of(*subject.operation, *recipe);
    result.model = expose(subject, result.model_shapes, result.tilings, isolation);
  }
  result.recipe_shapes = shapes_of(*subject.operation, recipes);
  result.recipes = expose(subject, result.recipe_shapes, result.tilings, isolation);
  return result;
}

std::string cell(const Exposed& exposed) {
  return exposed.failing > 0                ? "FAIL"
         : exposed.left > 0                 ? "?"
         : exposed.cases == 0               ? "-"
         : exposed.refused == exposed.cases ? "refused"
                                            : "ok";
}

bool fails(const std::vector<Exposed>& row) {
  return std::any_of(row.begin(), row.end(), [](const Exposed& one) { return one.failing > 0; });
}

std::uint64_t failing_rows(const std::vector<std::vector<Exposed>>& rows) {
  return static_cast<std::uint64_t>(std::count_if(rows.begin(), rows.end(), fails));
}

// One tiling over all shapes.
Exposed total_of(const SubjectExposure& e, std::size_t tiling) {
  Exposed total;
  for (const auto* rows : {&e.model, &e.recipes}) {
    for (const auto& row : *rows) {
      total.cases += row[tiling].cases;
      total.failing += row[tiling].failing;
      total.refused += row[tiling].refused;
      total.left += row[tiling].left;
    }
  }
  return total;
}

std::uint64_t cases_left(const SubjectExposure& e) {
  std::uint64_t left = 0;
  for (std::size_t i = 0; i < e.tilings.size(); ++i) {
    left += total_of(e, i).left;
  }
  return left;
}

enum class Safety {
  safe,        // judged on every shape, and failed on none
  unsafe,      // failed on some
  not_judged,  // refused everywhere, or not judged to the end
};

Safety safety_of(const Exposed& total) {
  return total.failing > 0                                ? Safety::unsafe
         : total.left == 0 && total.cases > total.refused ? Safety::safe
                                                          : Safety::not_judged;
}

std::vector<std::string> tilings_that_are(Safety safety, const SubjectExposure& e) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < e.tilings.size(); ++i) {
    if (safety_of(total_of(e, i)) == safety) {
      result.push_back(text(*e.subject->operation, e.tilings[i]));
    }
  }
  return result;
}

std::string table(const SubjectExposure& e, const std::vector<ReachedShape>& shapes,
                  const std::vector<std::vector<Exposed>>& rows, const char* prefix) {
  std::size_t width = 0;
  for (const ReachedShape& shape : shapes) {
    width = std::max(width, shape.label.size() + std::string_view(prefix).size());
  }
  std::string out = fmt::format("  {:<{}}", "", width);
  std::vector<std::size_t> columns;
  for (const Tiling& tiling : e.tilings) {
    const std::string head = text(*e.subject->operation, tiling);
    columns.push_back(std::max<std::size_t>(head.size(), 7));
    out += fmt::format("  {:<{}}", head, columns.back());
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    out += fmt::format("\n  {:<{}}", prefix + shapes[i].label, width);
    for (std::size_t t = 0; t < columns.size(); ++t) {
      out += fmt::format("  {:<{}}", cell(rows[i][t]), t + 1 < columns.size() ? columns[t] : 0);
    }
  }
  return out + "\n";
}

std::string first_failure(const SubjectExposure& e) {
  for (const auto* rows : {&e.model, &e.recipes}) {
    for (const auto& row : *rows) {
      for (const Exposed& one : row) {
        if (one.failing > 0) {
          return fmt::format("  first: {}: {}\n  {}\n", fmt::join(one.properties, ", "), one.message,
                             replay_line(one.case_text, e.subject->name));
        }
      }
    }
  }
  return {};
}

std::string list_of(const std::vector<std::string>& tilings) {
  return tilings.empty() ? "none" : fmt::format("{}", fmt::join(tilings, "; "));
}

std::string page(const SubjectExposure& e) {
  std::string out = e.subject->name + "\n";
  const std::uint64_t live = failing_rows(e.model);
  const std::uint64_t shipped = failing_rows(e.recipes);
  const char* so_far = cases_left(e) == 0 ? "" : ", so far";
  if (!e.model.empty()) {
    out += table(e, e.model_shapes, e.model, "");
  }
  if (!e.recipes.empty() && (e.model.empty() || shipped > 0)) {
    out += table(e, e.recipe_shapes, e.recipes, "shipped: ");
  }
  if (!e.model.empty()) {
    out += live > 0
               ? fmt::format("  live: {} of {} shapes of the model fail under some tiling\n", live, e.model.size())
               : fmt::format("  none of the model's {} shapes fails under these tilings{}\n", e.model.size(), so_far);
  }
  out += fmt::format("  shipped recipes (corpus/models.cases): {} of {} shapes fail{}\n", shipped, e.recipes.size(),
                     so_far);
  out += fmt::format("  safe: {}\n  not safe: {}\n", list_of(tilings_that_are(Safety::safe, e)),
                     list_of(tilings_that_are(Safety::unsafe, e)));
  if (const auto others = tilings_that_are(Safety::not_judged, e); !others.empty()) {
    out += fmt::format("  not judged to the end: {}\n", list_of(others));
  }
  return out + first_failure(e);
}

json rows_of(const SubjectExposure& e, const std::vector<ReachedShape>& shapes,
             const std::vector<std::vector<Exposed>>& rows) {
  json result = json::array();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    json tilings = json::array();
    for (std::size_t t = 0; t < e.tilings.size(); ++t) {
      const Exposed& one = rows[i][t];
      tilings.push_back({{"tiling", text(*e.subject->operation, e.tilings[t])},
                         {"cases", one.cases},
                         {"failing", one.failing},
                         {"refused", one.refused},
                         {"left", one.left},
                         {"properties", one.properties},
                         {"message", one.message},
                         {"case", one.case_text}});
    }
    result.push_back({{"shape", shapes[i].label}, {"fails", fails(rows[i])}, {"tilings", tilings}});
  }
  return result;
}

std::string document(const std::vector<SubjectExposure>& all) {
  json root{{"schema", "tileproof.exposure/1"}, {"version", TILEPROOF_VERSION}, {"subjects", json::array()}};
  for (const SubjectExposure& e : all) {
    root["subjects"].push_back({{"subject", e.subject->name},
                                {"model", rows_of(e, e.model_shapes, e.model)},
                                {"recipes", rows_of(e, e.recipe_shapes, e.recipes)},
                                {"safe", tilings_that_are(Safety::safe, e)},
                                {"unsafe", tilings_that_are(Safety::unsafe, e)},
                                {"not_judged", tilings_that_are(Safety::not_judged, e).size()}});
  }
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool judged_something(const SubjectExposure& e) {
  const auto judged = [](const Exposed& one) { return one.cases > one.refused; };
  const auto row_judged = [&](const std::vector<Exposed>& row) { return std::any_of(row.begin(), row.end(), judged); };
  return std::any_of(e.model.begin(), e.model.end(), row_judged) ||
         std::any_of(e.recipes.begin(), e.recipes.end(), row_judged);
}

int exit_status(bool live, std::uint64_t left) {
  if (interrupted_by() != 0) {
    return 128 + interrupted_by();
  }
  if (!live && left > 0) {
    throw InputError(
        fmt::format("the time was up before {} cases were judged, which is no pass; give more with --time, "
                    "or fewer shapes, tilings or subjects",
                    left));
  }
  return live ? 1 : 0;
}

int exposure(const Arguments& a) {
  const std::vector<const Subject*> subjects = choose_subjects(a.device, a.subjects);
  std::optional<ModelRecipe> recipe;
  if (a.model || !a.config.empty() || !a.set.empty()) {
    recipe = read_recipe(a, subjects);
  } else if (a.tp != "1" || a.cp != "1") {
    throw InputError(
        "--tp or --cp given without a model, expected --model FILE, --config KEY=VALUE or --set KEY=VALUE");
  }
  std::optional<OutputFile> file;
  if (a.json && *a.json != "-") {
    file.emplace("--json", *a.json);
  }
  Isolation isolation;
  isolation.jobs = static_cast<int>(whole_number("--jobs", a.jobs, 0, 1024));
  isolation.timeout_seconds = duration("--timeout", a.timeout);
  if (a.time) {
    isolation.deadline_ns = steady_ns() + static_cast<std::int64_t>(1e9 * duration("--time", *a.time));
  }
  const InterruptScope scope;
  const std::vector<Case> recipes = read_corpus_text(shipped_recipes(), "corpus/models.cases");
  std::vector<SubjectExposure> all;
  ProgressLine line;
  for (const Subject* subject : subjects) {
    if (!all.empty() && interrupted_by() != 0) {
      break;
    }
    isolation.progress = [&](std::uint64_t done) {
      line.show(fmt::format("{} cases of {}, subject {} of {}", done, subject->name, all.size() + 1, subjects.size()));
    };
    all.push_back(expose_subject(a, *subject, recipe, recipes, isolation));
  }
  line.clear();
  std::uint64_t left = 0;
  for (const SubjectExposure& e : all) {
    left += cases_left(e);
  }
  if (left == 0 && std::none_of(all.begin(), all.end(), judged_something)) {
    throw InputError("every shape was refused, which is no pass; give other shapes, tilings or subjects");
  }
  if (file) {
    file->commit(document(all));
  }
  std::string out = a.json == "-" ? document(all) : std::string();
  for (const SubjectExposure& e : a.json == "-" ? std::vector<SubjectExposure>() : all) {
    out += (out.empty() ? "" : "\n") + page(e);
  }
  say(out);
  const bool live = std::any_of(
      all.begin(), all.end(), [&](const SubjectExposure& e) { return failing_rows(recipe ? e.model : e.recipes) > 0; });
  return exit_status(live, left);
}

}  // namespace

void add_exposure(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("exposure", "which shapes of a real model fail, over all tilings");
  command.footer(kFooter);
  command.add_option("SUBJECT", a->subjects, "subjects, as globs; default: every clean one");
  command.add_option("--device", a->device, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--model", a->model, "a config.json as Hugging Face writes it")->type_name("FILE");
  command.add_option("--config", a->config, "a key of config.json and its value; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command.add_option("--set", a->set, "a key of a case and its value, as a rank sees it; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command.add_option("--tp", a->tp, "tensor parallel sizes; default 1")->type_name("N,N,...");
  command.add_option("--cp", a->cp, "context parallel sizes, each at every rank; default 1")->type_name("N,N,...");
  command.add_option("--tiling", a->tilings, "a tiling key and the values an autotuner may pick; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=N,N,...");
  command.add_option("--time", a->time, "stop then and print the table so far, with '?' for what was not judged")
      ->type_name("TIME");
  command.add_option("--jobs", a->jobs, "worker processes; default: one per core")->type_name("N");
  command.add_option("--timeout", a->timeout, "a launch that takes longer hangs; default 10s")->type_name("TIME");
  command.add_option("--json", a->json, "write tileproof.exposure/1; '-': to standard output, instead of the table")
      ->type_name("FILE");
  command.callback([a, &chosen] { chosen = [a] { return exposure(*a); }; });
}

}  // namespace tileproof
