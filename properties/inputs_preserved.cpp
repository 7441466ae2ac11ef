// What an operation declares as input must come back bit for bit.
#include "plans.h"

namespace tileproof {

namespace {

class InputsPreserved : public Property {
 public:
  std::string_view name() const override { return "inputs_preserved"; }
  std::string_view holds_when() const override { return "tensors that are only read are unchanged"; }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    return {.applies = true,
            .power = has_elements(context.the_case.problem),
            .reason = {},
            .runs = {base_run(context, plan)}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      for (const InputChange& change : results.run(id).changes) {
        const HostTensor& input = results.inputs(id)[change.tensor];
        Failure failure;
        failure.tensor = input.shape.spec->name;
        failure.where = "input";
        failure.kind = "changed";
        failure.message = element_name(input.shape, change.element) + " was an input and has changed";
        failure.evidence.push_back("run: " + describe(*context.subject.operation, results.request(id)));
        return failure;
      }
    }
    return std::nullopt;
  }
  bool judges_every_run() const override { return true; }
};

}  // namespace

const Property& inputs_preserved_property() {
  static const InputsPreserved property;
  return property;
}

}  // namespace tileproof
