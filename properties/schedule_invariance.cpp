// The result must not depend on who runs first. Between two barriers, any conflict between two threads shows in forward
// or in reverse order.
#include "plans.h"

namespace tileproof {

namespace {

// The first tiling with every value behind the first halved and doubled, inside the limits: the first value cuts the
// work, the others only say how many hands do it.
std::vector<Tiling> other_resources(const CaseContext& context) {
  std::vector<Tiling> result;
  const auto& declared = context.subject.operation->tiling_parameters();
  for (std::size_t i = 1; i < declared.size(); ++i) {
    const std::int64_t value = context.the_case.tilings.front().values[i];
    for (const std::int64_t other : {value / 2, value * 2}) {
      Tiling tiling = context.the_case.tilings.front();
      tiling.values[i] = other;
      if (other >= declared[i].min && other <= declared[i].max && !outside_limits(context.subject, tiling)) {
        result.push_back(tiling);
      }
    }
  }
  return result;
}

class ScheduleInvariance : public Property {
 public:
  std::string_view name() const override { return "schedule_invariance"; }
  std::string_view holds_when() const override {
    return "the result is the same for every num_warps, thread order, block order and repetition";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    Expectation expectation{.applies = true,
                            .power = has_elements(context.the_case.problem),
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    for (const Order threads : {Order::reverse, Order::shuffled}) {
      Tiling tiling = context.the_case.tilings.front();
      tiling.threads = threads;
      tiling.blocks = threads;
      tiling.order_seed = threads == Order::shuffled ? 1 : 0;
      expectation.runs.push_back(run_with(context, plan, tiling));
    }
    for (const Tiling& tiling : other_resources(context)) {
      expectation.runs.push_back(run_with(context, plan, tiling));
      Tiling reversed = tiling;
      reversed.threads = Order::reverse;
      expectation.runs.push_back(run_with(context, plan, reversed));
    }
    expectation.runs.push_back(base_run_in(context, plan, Memory{.repeat = 1}));
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& schedule_invariance_property() {
  static const ScheduleInvariance property;
  return property;
}

}  // namespace tileproof
