// A launch must be accepted and end. Crashes and hangs are seen by the supervisor, which reports them under this
// property.
#include "plans.h"

namespace tileproof {

namespace {

class LaunchValid : public Property {
 public:
  std::string_view name() const override { return "launch_valid"; }
  std::string_view holds_when() const override { return "no launch error, crash, hang or grid limit"; }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    return {.applies = true,
            .power = has_elements(context.the_case.problem),
            .reason = {},
            .runs = {base_run(context, plan)}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      const RunResult& run = results.run(id);
      if (run.status == RunResult::Status::failed) {
        Failure failure;
        failure.where = "launch";
        failure.kind = "error";
        failure.message = run.message;
        failure.evidence.push_back(describe(*context.subject.operation, results.request(id)));
        return failure;
      }
    }
    return std::nullopt;
  }
  bool judges_failed_launches() const override { return true; }
};

}  // namespace

const Property& launch_valid_property() {
  static const LaunchValid property;
  return property;
}

}  // namespace tileproof
