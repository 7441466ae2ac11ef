#include "search/engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "execute/runner.h"
#include "memory/arena.h"
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

void apply(const Gather& gather, const HostTensor& source, HostTensors& inputs) {
  HostTensor& to = inputs[gather.tensor];
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

struct Engine::Impl {
  Arena arena;
  std::vector<HostTensors> inputs;  // of each problem of the plan; allocations are kept between cases
  std::vector<RunResult> runs;
};

Engine::Engine() : impl_(std::make_unique<Impl>()) {}
Engine::~Engine() = default;

namespace {

RunResult run_one(Arena& arena, const Plan& plan, const RunRequest& request, const std::vector<HostTensors>& inputs,
                  const std::vector<RunResult>& earlier) {
  const Problem& problem = plan.problems()[request.problem];
  if (request.gathers.empty()) {
    return execute_run(arena, *request.subject, problem, request.tiling, request.memory, inputs[request.problem]);
  }
  HostTensors changed = inputs[request.problem];
  for (const Gather& gather : request.gathers) {
    if (gather.from_run && earlier[gather.source].status != RunResult::Status::ok) {
      RunResult result;
      result.status = earlier[gather.source].status;
      result.message = earlier[gather.source].message;
      return result;
    }
    const HostTensors& source = gather.from_run ? earlier[gather.source].outputs : inputs[gather.source];
    apply(gather, source[gather.source_tensor], changed);
  }
  RunResult result = execute_run(arena, *request.subject, problem, request.tiling, request.memory, changed);
  result.inputs = std::move(changed);
  return result;
}

// Runs that other properties asked for count too: a failed launch is one, and damage is damage.
void add_runs_of_others(const Property& property, const Subject& subject, const Plan& plan,
                        const std::vector<RunResult>& runs, Expectation& expectation) {
  for (RunId id = 0; id < runs.size(); ++id) {
    if (plan.runs()[id].subject != &subject) {
      continue;
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
    if (runs[id].status == RunResult::Status::failed && !property.judges_failed_launches()) {
      judged.verdict = Verdict::not_applicable;
      judged.reason = "a launch failed: " + runs[id].message;
      return judged;
    }
  }
  judged.failure = property.judge(context, expectation, results);
  judged.verdict = judged.failure ? Verdict::failed : Verdict::held;
  return judged;
}

}  // namespace

namespace {

std::optional<std::string> outside_limits(const Subject& subject, const Case& c) {
  auto reason = outside_limits(subject, c.problem);
  for (const Tiling& tiling : c.tilings) {
    reason = reason ? reason : outside_limits(subject, tiling);
  }
  return reason;
}

}  // namespace

std::vector<Judged> Engine::check(const Subject& subject, const Case& c,
                                  const std::vector<const Property*>& properties) {
  if (const auto reason = outside_limits(subject, c)) {
    return std::vector<Judged>(properties.size(), Judged{Verdict::refused, false, *reason, std::nullopt});
  }
  const std::string adjoint = subject.operation->algebra().adjoint;
  const CaseContext context{c, subject, adjoint.empty() ? nullptr : clean_subject(adjoint, subject.raw->device)};
  Plan plan;
  std::vector<Expectation> expectations;
  for (const Property* property : properties) {
    expectations.push_back(property->plan(context, plan));
  }
  impl_->inputs.resize(std::max(impl_->inputs.size(), plan.problems().size()));
  for (ProblemId id = 0; id < plan.problems().size(); ++id) {
    note_progress();
    make_inputs(plan.problems()[id], impl_->inputs[id]);
  }
  impl_->runs.clear();
  for (const RunRequest& request : plan.runs()) {
    impl_->runs.push_back(run_one(impl_->arena, plan, request, impl_->inputs, impl_->runs));
    ++launches_;
  }
  const Results results(plan, impl_->inputs, impl_->runs);
  std::vector<Judged> judged;
  for (std::size_t i = 0; i < properties.size(); ++i) {
    add_runs_of_others(*properties[i], subject, plan, impl_->runs, expectations[i]);
    note_progress();
    judged.push_back(judge_one(*properties[i], context, expectations[i], results, impl_->runs));
  }
  return judged;
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
