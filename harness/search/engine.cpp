#include "search/engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "execute/executor.h"
#include "memory/recipes.h"
#include "search/results.h"

namespace tileproof {

ProblemId Plan::problem(const Problem& problem) {
  const auto found = std::find(problems_.begin(), problems_.end(), problem);
  if (found != problems_.end()) {
    return static_cast<ProblemId>(found - problems_.begin());
  }
  problems_.push_back(problem);
  return problems_.size() - 1;
}

RunId Plan::run(RunRequest request) {
  const auto found = std::find(runs_.begin(), runs_.end(), request);
  if (found != runs_.end()) {
    return static_cast<RunId>(found - runs_.begin());
  }
  runs_.push_back(std::move(request));
  return runs_.size() - 1;
}

namespace {

// Copies positions index[0], index[1], ... along `axis` of the source. A token axis followed by a batch axis counts as
// one axis of tokens.
void gather_axis(const HostTensor& source, AxisKind axis_kind, const std::vector<std::int64_t>& index, HostTensor& to) {
  const TensorShape& shape = source.shape;
  const int axis = shape.axis(axis_kind);
  std::size_t inner = size_of(shape.dtype);
  std::int64_t length = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const bool merged = axis_kind == AxisKind::token && shape.spec->axes[at].kind == AxisKind::batch;
    if (i == axis || (merged && i == axis + 1)) {
      length *= shape.shape[at];
    } else if (i > axis) {
      inner *= static_cast<std::size_t>(shape.shape[at]);
    }
  }
  const std::size_t source_block = inner * static_cast<std::size_t>(length);
  const std::size_t outer = source_block == 0 ? 0 : source.bytes.size() / source_block;
  if (to.bytes.size() != outer * index.size() * inner) {
    throw HarnessError(fmt::format("gather of {} rows does not fit tensor '{}'", index.size(), to.shape.spec->name));
  }
  std::byte* out = to.bytes.data();
  for (std::size_t block = 0; block < outer; ++block) {
    for (const std::int64_t position : index) {
      std::memcpy(out, source.bytes.data() + block * source_block + static_cast<std::size_t>(position) * inner, inner);
      out += inner;
    }
  }
}

void apply(const Gather& gather, const HostTensor& source, HostTensor& to) {
  if (gather.index.empty()) {
    if (to.bytes.size() != source.bytes.size()) {
      throw HarnessError(fmt::format("gather into '{}': {} bytes given, {} expected", to.shape.spec->name,
                                     source.bytes.size(), to.bytes.size()));
    }
    to.bytes = source.bytes;
    return;
  }
  gather_axis(source, gather.axis, gather.index, to);
}

}  // namespace

std::string signature(std::string_view property, const Failure& failure) {
  return fmt::format("{}/{}/{}/{}", property, failure.tensor, failure.where, failure.kind);
}

// A case between planning and judging.
struct Engine::Planned {
  CaseContext context;
  Plan plan;
  std::vector<Expectation> expectations;
  std::vector<HostTensors>* inputs = nullptr;  // of each problem of the plan
  std::vector<RunResult> runs;
  std::vector<std::size_t> levels;     // of each run: 0 when it needs no other run, else one more than those it needs
  std::optional<std::string> refused;  // the limit that the case is outside of; then nothing is planned
};

Engine::Engine(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
Engine::~Engine() = default;

namespace {

std::vector<std::size_t> levels_of(const Plan& plan) {
  std::vector<std::size_t> levels;
  for (const RunRequest& request : plan.runs()) {
    std::size_t level = 0;
    for (const Gather& gather : request.gathers) {
      level = gather.from_run ? std::max(level, levels[gather.source] + 1) : level;
    }
    levels.push_back(level);
  }
  return levels;
}

// Applies the gathers of a run. False when a run that it needs did not end well: then so does this one.
bool gather_inputs(const RunRequest& request, const std::vector<Problem>& problems, std::vector<HostTensors>& inputs,
                   std::vector<RunResult>& runs, RunResult& result) {
  HostTensors changed = inputs[request.problem];
  for (const Gather& gather : request.gathers) {
    if (gather.from_run && runs[gather.source].status != RunResult::Status::ok) {
      result.status = runs[gather.source].status;
      result.message = runs[gather.source].message;
      return false;
    }
    if (!gather.from_run) {
      const Stopwatch watch(stage_times().inputs);
      complete_inputs(problems[gather.source], inputs[gather.source]);
    }
    const HostTensors& source = gather.from_run ? runs[gather.source].outputs : inputs[gather.source];
    HostTensor& to = changed[gather.tensor];
    if (is_made_by_recipe(to.shape) && to.bytes.empty()) {  // all of it is about to be replaced
      to.bytes.resize(static_cast<std::size_t>(to.shape.elements()) * size_of(to.shape.dtype));
    }
    apply(gather, source[gather.source_tensor], to);
  }
  result.inputs = std::move(changed);
  return true;
}

// Runs that other properties asked for count too: a failed launch is one, and damage is damage.
void add_runs_of_others(const Property& property, const Subject& subject, const Plan& plan,
                        const std::vector<RunResult>& runs, Expectation& expectation) {
  for (RunId id = 0; id < runs.size(); ++id) {
    if (plan.runs()[id].subject != &subject || plan.runs()[id].sanitize) {
      continue;  // what a sanitizing build does is for those who asked for it
    }
    if (property.judges_failed_launches() && runs[id].status == RunResult::Status::failed) {
      expectation.applies = true;
      expectation.runs.push_back(id);
    }
    const auto& own = expectation.runs;
    if (property.judges_every_run() && expectation.applies && runs[id].status == RunResult::Status::ok &&
        std::find(own.begin(), own.end(), id) == own.end()) {
      expectation.runs.push_back(id);
    }
  }
}

Judged judge_one(const Property& property, const CaseContext& context, const Expectation& expectation,
                 const Results& results, const std::vector<RunResult>& runs) {
  Judged judged;
  judged.power = expectation.power;
  judged.reason = expectation.reason;
  if (!expectation.applies) {
    return judged;
  }
  for (const RunId id : expectation.runs) {
    if (runs[id].status == RunResult::Status::refused) {
      judged.verdict = Verdict::refused;
      judged.reason = runs[id].message;
      return judged;
    }
    const bool failed = runs[id].status == RunResult::Status::failed;
    if (failed && !property.judges_failed_launches() && !property.sanitizes()) {
      judged.verdict = Verdict::not_applicable;
      judged.reason = "a launch failed: " + runs[id].message;
      return judged;
    }
  }
  judged.failure = property.judge(context, expectation, results);
  judged.verdict = judged.failure ? Verdict::failed : Verdict::held;
  for (const RunId id : expectation.runs) {
    if (property.sanitizes() && !judged.failure && runs[id].status == RunResult::Status::failed) {
      judged.verdict = Verdict::not_applicable;  // it ended before everything was seen
      judged.reason = "a launch failed: " + runs[id].message;
    }
  }
  return judged;
}

std::optional<Tiling> wrong_tiling(const Judged& judged, const Expectation& expectation, const Plan& plan) {
  if (!judged.failure) {
    return std::nullopt;
  }
  std::optional<RunId> run = judged.failure->run;
  if (!run && expectation.runs.size() == 1) {
    run = expectation.runs.front();
  }
  return run ? std::optional(plan.runs()[*run].tiling) : std::nullopt;
}

}  // namespace

void Engine::execute(std::vector<Planned>& planned) {
  executor_->begin();
  std::size_t deepest = 0;
  for (const Planned& p : planned) {
    deepest = std::max(deepest, p.levels.empty() ? 0 : *std::max_element(p.levels.begin(), p.levels.end()));
  }
  std::vector<RunOrder> orders;
  std::vector<RunOrder> replays;  // apart, so that they can be executed together
  for (std::size_t level = 0; level <= deepest; ++level) {
    orders.clear();
    replays.clear();
    for (Planned& p : planned) {
      std::vector<bool> wanted(p.plan.runs().size(), false);
      for (const RunRequest& request : p.plan.runs()) {
        for (const Gather& gather : request.gathers) {
          if (gather.from_run) {
            wanted[gather.source] = true;
          }
        }
      }
      for (RunId id = 0; id < p.plan.runs().size(); ++id) {
        const RunRequest& request = p.plan.runs()[id];
        RunResult& result = p.runs[id];
        if (p.levels[id] == level &&
            (request.gathers.empty() || gather_inputs(request, p.plan.problems(), *p.inputs, p.runs, result))) {
          const HostTensors& inputs = result.inputs.empty() ? (*p.inputs)[request.problem] : result.inputs;
          // The first run is the one that properties hold the others against, and the reference against it.
          RunOrder order{request.subject, &p.plan.problems()[request.problem],
                         &request.tiling, &request.memory,
                         &inputs,         wanted[id] || id == 0,
                         &result,         request.sanitize};
          if (request.captured_with) {
            order.captured_problem = &p.plan.problems()[*request.captured_with];
            order.captured_inputs = &(*p.inputs)[*request.captured_with];
          }
          (request.captured_with ? replays : orders).push_back(order);
        }
      }
    }
    executor_->execute(orders);
    executor_->execute(replays);
    launches_ += orders.size() + 2 * replays.size();  // each graph is launched with both contents
  }
}

std::vector<std::vector<Judged>> Engine::check(const Subject& subject, std::span<const Case> cases,
                                               const std::vector<const Property*>& properties, bool sanitize) {
  const std::string adjoint = subject.operation->algebra().adjoint;
  const Subject* const partner = adjoint.empty() ? nullptr : clean_subject(adjoint, subject.raw->device);
  inputs_.resize(std::max(inputs_.size(), cases.size()));
  std::vector<Planned> planned;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Planned& p = planned.emplace_back(
        Planned{{cases[i], subject, partner}, {}, {}, &inputs_[i], {}, {}, outside_limits(subject, cases[i])});
    if (p.refused) {
      continue;
    }
    for (const Property* property : properties) {
      p.expectations.push_back(property->sanitizes() && !sanitize
                                   ? Expectation::no("the case is not of the share that the sanitizing build runs")
                                   : property->plan(p.context, p.plan));
    }
    p.runs.resize(p.plan.runs().size());
    p.levels = levels_of(p.plan);
    p.inputs->resize(std::max(p.inputs->size(), p.plan.problems().size()));
    const Stopwatch watch(stage_times().inputs);
    for (ProblemId id = 0; id < p.plan.problems().size(); ++id) {
      note_progress();
      make_operation_inputs(p.plan.problems()[id], (*p.inputs)[id]);
      if (!executor_->makes_data()) {
        complete_inputs(p.plan.problems()[id], (*p.inputs)[id], &spare_);
      }
    }
  }
  execute(planned);
  const Stopwatch watch(stage_times().reference);
  std::vector<std::vector<Judged>> verdicts;
  for (Planned& p : planned) {
    if (p.refused) {
      verdicts.emplace_back(properties.size(), Judged{Verdict::refused, false, *p.refused, std::nullopt, std::nullopt});
      continue;
    }
    const Results results(p.plan, *p.inputs, p.runs, executor_.get(), &spare_);
    std::vector<Judged>& judged = verdicts.emplace_back();
    for (std::size_t i = 0; i < properties.size(); ++i) {
      add_runs_of_others(*properties[i], subject, p.plan, p.runs, p.expectations[i]);
      note_progress();
      judged.push_back(judge_one(*properties[i], p.context, p.expectations[i], results, p.runs));
      judged.back().tiling = wrong_tiling(judged.back(), p.expectations[i], p.plan);
      if (closer_ && judged.back().failure) {
        const std::vector<std::string> more = closer_(p.context, results, *judged.back().failure);
        auto& evidence = judged.back().failure->evidence;
        evidence.insert(evidence.end(), more.begin(), more.end());
      }
    }
    for (HostTensors& inputs : *p.inputs) {
      recycle_inputs(inputs, spare_);
    }
  }
  return verdicts;
}

std::vector<const Property*> matching_properties(const std::vector<std::string>& globs) {
  std::vector<const Property*> result;
  for (const Property* property : all_properties()) {
    const bool wanted = globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
                          return glob_matches(glob, property->name());
                        });
    if (wanted) {
      result.push_back(property);
    }
  }
  return result;
}

}  // namespace tileproof
