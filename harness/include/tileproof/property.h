// tileproof/property.h: what a property is.
//
// A property says which runs of a case it needs (plan) and whether they hold together (judge). It is stateless: what
// plan() decided comes back to judge(). The engine takes the union of all plans, executes each distinct run once, and
// then judges. A property sees operations, subjects and tensors only through their declarations.
//
// To add one: one file properties/NAME.cpp that defines `const Property& NAME_property()`, and NAME in the list of
// properties/CMakeLists.txt.
#ifndef TILEPROOF_PROPERTY_H
#define TILEPROOF_PROPERTY_H

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tileproof/operation.h"

namespace tileproof {

// The harness itself is at fault (for example a recipe that is not exact where it claims to be). Exit status 3.
class HarnessError : public std::logic_error {
  using std::logic_error::logic_error;
};

struct Subject;  // execute/subject.h

enum class GuardFill { finite, nan };  // two bit patterns for guards and output pre-fills; neither repeats the other
enum class Strides { as_case, contiguous, padded, sliced, materialised };  // materialised: broadcasts are expanded

// How the memory of a run is laid out and what it holds before the launch.
struct Memory {
  GuardFill guard = GuardFill::finite;
  GuardFill prefill = GuardFill::finite;  // of `out` tensors
  Strides strides = Strides::as_case;
  std::int64_t extra_shift = 0;  // elements added to the shift of the case
  int repeat = 0;                // distinguishes runs that are otherwise equal
  bool operator==(const Memory&) const = default;
};

using RunId = std::size_t;
using ProblemId = std::size_t;

// Replaces an input tensor by rows gathered from the inputs of a problem or the outputs of an earlier run:
// element [.., i, ..] along `axis` is the source's [.., index[i], ..]. An empty index copies the tensor whole.
struct Gather {
  std::size_t tensor = 0;  // the input to replace
  bool from_run = false;   // source: outputs of run `source`; else inputs of problem `source`
  std::size_t source = 0;
  std::size_t source_tensor = 0;
  AxisKind axis = AxisKind::token;
  std::vector<std::int64_t> index;
  bool operator==(const Gather&) const = default;
};

struct RunRequest {
  const Subject* subject = nullptr;
  ProblemId problem = 0;
  Tiling tiling;
  Memory memory;
  std::vector<Gather> gathers;
  bool sanitize = false;  // by the sanitizing build of the subject, which it must have
  // Of cuda subjects: the launch is captured in a graph with what this problem gives, and replayed on what its own
  // gives. Both have the same shapes and scalars, so that they differ in nothing but what tensors hold.
  std::optional<ProblemId> captured_with = std::nullopt;
  bool operator==(const RunRequest&) const = default;
};

// The runs a case needs. Equal problems and equal runs get one id; runs execute in the order of their ids.
class Plan {
 public:
  ProblemId problem(const Problem& problem);
  RunId run(RunRequest request);
  const std::vector<Problem>& problems() const { return problems_; }
  const std::vector<RunRequest>& runs() const { return runs_; }

 private:
  std::vector<Problem> problems_;
  std::vector<RunRequest> runs_;
};

// Bytes outside the declared elements that a run changed, next to one tensor.
struct GuardDamage {
  std::size_t tensor = 0;
  std::vector<std::int64_t> elements;  // offsets from the tensor's base in elements, ascending (the first 65536)
  std::int64_t bytes = 0;              // how many bytes changed
  std::int64_t first_byte = 0;         // offsets from the tensor's base in bytes; negative: before it
  std::int64_t last_byte = 0;
  std::string where;  // kind of place, for the signature: before, after, between_rows
  std::string text;   // coordinates and how many rows past which bound
};

struct InputChange {
  std::size_t tensor = 0;
  std::int64_t element = 0;  // packed index of the first changed element
};

// What a launch of a sanitizing build did that CUDA does not allow: harness/docs/sanitizer.md.
struct HazardReport {
  std::string property;  // whose it is
  std::string tensor;    // "shared": shared memory; "" when no memory is concerned
  std::string where;     // lines of the kernel, one or two
  std::string kind;
  std::string message;                // one line
  std::vector<std::string> evidence;  // further lines: each access with its calls, thread and block
  std::string lines;                  // by which reports are told apart
};

struct RunResult {
  enum class Status { ok, refused, failed };
  Status status = Status::ok;
  std::string message;  // of a refusal or failure
  HostTensors inputs;   // packed, as the subject saw them (empty where the problem's own inputs were used)
  HostTensors outputs;  // packed; out and inout tensors only; empty while they are on the device (Results::outputs)
  std::vector<std::uint64_t>
      digests;             // of each tensor's outputs, where the device made them: equal bits, equal digests
  std::size_t ticket = 0;  // by which its executor knows the run
  std::vector<GuardDamage> damage;
  std::vector<InputChange> changes;   // `in` tensors that were written
  std::vector<HazardReport> reports;  // of a sanitizing build
};

struct CaseContext {
  const Case& the_case;
  const Subject& subject;
  const Subject* adjoint = nullptr;  // the clean subject of the adjoint operation on the same device, or null
};

// What plan() decided: whether the property applies, whether this case could have failed it, and its runs.
struct Expectation {
  bool applies = false;
  bool power = false;
  std::string reason;  // why it does not apply, or why it has no power
  std::vector<RunId> runs;

  static Expectation no(std::string why) { return {false, false, std::move(why), {}}; }
};

struct Failure {
  std::string tensor;                 // "" when no tensor is concerned
  std::string where;                  // kind of place, e.g. after, nope, rope, row
  std::string kind;                   // kind of failure, e.g. overrun, differs, wrong
  std::string message;                // one line
  std::vector<std::string> evidence;  // further lines, at most about ten
  std::optional<RunId> run = {};      // the run that is wrong, where it is one
};

class Results;  // search/results.h

class Property {
 public:
  virtual ~Property() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view holds_when() const = 0;  // one line for `list`
  virtual Expectation plan(const CaseContext& context, Plan& plan) const = 0;
  virtual std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                                       const Results& results) const = 0;
  // Whether judge() wants to see runs whose launch failed; otherwise such a case is not judged by this property.
  virtual bool judges_failed_launches() const { return false; }
  // Whether its runs are of the sanitizing build; only a share of generated cases is judged by it.
  virtual bool sanitizes() const { return false; }
  // Whether judge() wants to see every run of the subject that ended, whichever property asked for it.
  virtual bool judges_every_run() const { return false; }
};

}  // namespace tileproof

#endif
