// A kernel that keeps something between launches shows when another problem runs in between.
#include "plans.h"

namespace tileproof {

namespace {

class CallOrder : public Property {
 public:
  std::string_view name() const override { return "call_order"; }
  std::string_view holds_when() const override {
    return "the result is the same before and after another problem, and a second time from fresh memory";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    Problem other = context.the_case.problem;
    Value data = other.value("data");
    data.second = data.second == 0 ? 1 : data.second - 1;
    other.set("data", data);
    Expectation expectation{.applies = true,
                            .power = has_elements(context.the_case.problem),
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    plan.run({&context.subject, plan.problem(other), context.the_case.tilings.back(), {}, {}});
    expectation.runs.push_back(base_run_in(context, plan, Memory{.repeat = 2}));
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& call_order_property() {
  static const CallOrder property;
  return property;
}

}  // namespace tileproof
