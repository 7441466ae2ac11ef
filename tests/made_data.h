// Holds data that a device makes by itself to the host's, bit for bit: of tests with a GPU and of tests without one.
#ifndef TILEPROOF_TESTS_MADE_DATA_H
#define TILEPROOF_TESTS_MADE_DATA_H

#include <string>
#include <vector>

#include "execute/executor.h"
#include "memory/recipes.h"

namespace tileproof {

// Every recipe in every type, with and without broadcasts. Heads are an odd number, so that one has no partner.
inline std::vector<Case> cases_of_every_recipe(const Operation& operation) {
  std::vector<Case> cases;
  for (std::int64_t recipe = 0; recipe < 4; ++recipe) {
    for (std::int64_t dtype = 0; dtype < 3; ++dtype) {
      for (std::int64_t broadcast = 0; broadcast < 3; ++broadcast) {
        Case c{Problem(operation), {default_tiling(operation)}};
        for (const Parameter& parameter : operation.parameters()) {
          if (parameter.required && parameter.kind == ParameterKind::integer) {
            c.problem.set(parameter.key, parameter.multiple_of * 7);
          }
        }
        c.problem.set("dtype", dtype).set("broadcast", broadcast);
        c.problem.set("data", Value{.number = recipe, .second = 41 + dtype, .items = {}});
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

// Runs each case on data from the host and on data that the device makes, with broadcasts as strides of 0 and written
// out. Returns the first case whose outputs differ, or that did not end well; empty when there is none. `compared`
// counts bytes.
inline std::string first_difference_of_made_data(Executor& device, const Subject& subject, std::size_t& compared) {
  for (const Case& c : cases_of_every_recipe(*subject.operation)) {
    HostTensors all;
    HostTensors some;
    make_inputs(c.problem, all);
    make_operation_inputs(c.problem, some);
    for (const Strides strides : {Strides::as_case, Strides::materialised}) {
      const Memory memory{.strides = strides};
      RunResult given;
      RunResult made;
      const std::vector<RunOrder> orders{{&subject, &c.problem, &c.tilings[0], &memory, &all, true, &given},
                                         {&subject, &c.problem, &c.tilings[0], &memory, &some, true, &made}};
      device.begin();
      device.execute(orders);
      bool same = given.status == RunResult::Status::ok && made.status == RunResult::Status::ok &&
                  given.changes.empty() && made.changes.empty();
      for (std::size_t tensor = 0; same && tensor < given.outputs.size(); ++tensor) {
        same = given.outputs[tensor].bytes == made.outputs[tensor].bytes;
        compared += given.outputs[tensor].bytes.size();
      }
      if (!same) {
        return subject.name + ": " + text(c);
      }
    }
  }
  return {};
}

}  // namespace tileproof

#endif
