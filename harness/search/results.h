// What judge() sees: the executed runs, and the comparisons that several properties share.
#ifndef TILEPROOF_SEARCH_RESULTS_H
#define TILEPROOF_SEARCH_RESULTS_H

#include <optional>
#include <vector>

#include "tileproof/property.h"

namespace tileproof {

class Executor;  // execute/executor.h

class Results {
 public:
  // `executor` ran them and still has the outputs that `runs` lack; null: they lack none. Inputs of a problem that lack
  // what a recipe fills get it when they are asked for, in memory from `spare`.
  Results(const Plan& plan, std::vector<HostTensors>& inputs, std::vector<RunResult>& runs,
          Executor* executor = nullptr, std::vector<Bytes>* spare = nullptr)
      : plan_(plan), inputs_(inputs), runs_(runs), executor_(executor), spare_(spare) {}
  const RunResult& run(RunId id) const { return runs_[id]; }  // for its outputs ask outputs()
  const RunRequest& request(RunId id) const { return plan_.runs()[id]; }
  const Problem& problem(ProblemId id) const { return plan_.problems()[id]; }
  const Problem& problem_of(RunId id) const { return problem(request(id).problem); }
  const HostTensors& problem_inputs(ProblemId id) const { return whole(id, inputs_[id]); }
  // What the subject was given in this run (gathers applied).
  const HostTensors& inputs(RunId id) const {
    const ProblemId problem = plan_.runs()[id].problem;
    return whole(problem, runs_[id].inputs.empty() ? inputs_[problem] : runs_[id].inputs);
  }
  // What it put out, packed; brought from the device when they are not here yet.
  const HostTensors& outputs(RunId id) const;
  // Whether the device has shown that both runs put out the same bits.
  bool same_digests(RunId a, RunId b) const {
    return !runs_[a].digests.empty() && runs_[a].digests == runs_[b].digests;
  }

 private:
  const HostTensors& whole(ProblemId id, HostTensors& inputs) const;

  const Plan& plan_;
  std::vector<HostTensors>& inputs_;
  std::vector<RunResult>& runs_;  // outputs are brought when asked for
  Executor* executor_;
  std::vector<Bytes>* spare_;
};

// Which elements of a run's outputs correspond to which of another: position i along `axis` of `a` is position
// index[i] of `b`. Empty: the same place. Tensors without the axis correspond whole when `others` is set, else are
// left out.
struct Correspondence {
  AxisKind axis = AxisKind::token;
  std::vector<std::int64_t> index;
  bool others = true;
};

// Section 4 of the design: bitwise where the arithmetic leaves no choice (exact data, copies, 16-bit products in f32,
// or a subject that pins contraction and order), otherwise within the sum of both bounds. `kind` names the failure.
std::optional<Failure> compare_runs(const CaseContext& context, const Results& results, RunId a, RunId b,
                                    const Correspondence& correspondence, std::string_view kind);

// Every element of the run's outputs against the reference.
std::optional<Failure> compare_with_reference(const CaseContext& context, const Results& results, RunId id);

// Per element of one output tensor: reference value and bound; bound < 0 marks a bit copy.
struct Bounded {
  std::vector<double> value;
  std::vector<double> bound;
};
// What the run should have put out; indexed by tensor, absent tensors are empty.
std::vector<Bounded> reference_values(const Results& results, RunId id);
// The same for inputs of anybody's making.
std::vector<Bounded> reference_of(const Problem& problem, const Subject& subject, const HostTensors& inputs);

// "q[token=3, head=8, dim=70]".
std::string element_name(const TensorShape& shape, std::int64_t element);

// The largest observed error over its bound since the process started, per worker; printed so that bounds stay honest.
double largest_error_over_bound();

}  // namespace tileproof

#endif
