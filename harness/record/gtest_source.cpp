#include "record/gtest_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "memory/layout.h"
#include "memory/recipes.h"
#include "record/gtest_harness.h"
#include "record/record.h"
#include "search/results.h"

namespace tileproof {

namespace {

constexpr std::int64_t kLargest = 20'000;  // elements from the first to the last of every tensor together

std::string with(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

// Numbers in lines of a width that people read.
template <typename Item, typename Write>
std::string list_of(const std::vector<Item>& items, Write write) {
  std::string out;
  std::string line = "       ";
  for (const Item& item : items) {
    const std::string word = fmt::format(" {},", write(item));
    if (line.size() + word.size() > 118) {
      out += line + "\n";
      line = "       ";
    }
    line += word;
  }
  return fmt::format("{{\n{}{}\n      }}", out, line);
}

std::string number_text(double value) {
  return std::isnan(value)   ? "NAN"
         : std::isinf(value) ? (value < 0 ? "-INFINITY" : "INFINITY")
                             : fmt::format("{:a}", value);
}

std::string bits_text(const HostTensor& tensor) {
  const std::size_t size = size_of(tensor.shape.dtype);
  std::vector<std::uint32_t> bits(tensor.bytes.size() / size, 0);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&bits[i], tensor.bytes.data() + i * size, size);
  }
  return bits.empty() ? "{}"
                      : list_of(bits, [size](std::uint32_t word) { return fmt::format("0x{:0{}x}", word, 2 * size); });
}

std::string four(const std::array<std::int64_t, TILEPROOF_MAX_RANK>& values, int rank) {
  return fmt::format("{{{}}}", fmt::join(values.begin(), values.begin() + rank, ", "));
}

std::string tensor_text(const Layout& layout, const HostTensor& input, const Bounded& expected) {
  const TensorSpec& spec = *layout.shape.spec;
  const auto numbers = [](const std::vector<double>& values) {
    return values.empty() ? std::string("{}") : list_of(values, number_text);
  };
  return fmt::format(
      "     {{\"{}\", {}, {}, {}, {}, {}, {}, {},\n      {},\n      {},\n      {}}},\n", spec.name,
      static_cast<int>(layout.shape.dtype), layout.shape.rank, four(layout.shape.shape, layout.shape.rank),
      four(layout.strides, layout.shape.rank), layout.shift, layout.extent, spec.role == Role::in ? "true" : "false",
      spec.role == Role::out ? "{}" : bits_text(input), spec.role == Role::in ? "{}" : numbers(expected.value),
      spec.role == Role::in ? "{}" : numbers(expected.bound));
}

std::string problem_text(const Problem& problem, const Subject& subject) {
  const std::vector<Layout> layouts = lay_out(problem, {});
  std::int64_t elements = 0;
  for (const Layout& layout : layouts) {
    elements += layout.extent;
  }
  if (elements > kLargest) {
    throw InputError(fmt::format("the case spans {} elements, expected at most {} in a source file; minimise it first",
                                 elements, kLargest));
  }
  HostTensors inputs;
  make_inputs(problem, inputs);
  const std::vector<Bounded> expected = reference_of(problem, subject, inputs);
  std::string out = fmt::format("    // {}\n    {{\n", text(problem));
  for (const Layout& layout : layouts) {
    out += tensor_text(layout, inputs[layout.shape.index], expected[layout.shape.index]);
  }
  out += "    },\n    {";
  for (const auto& [name, value] : problem.operation().scalars(problem)) {
    out += fmt::format("{{\"{}\", {}}}, ", name, value);
  }
  return out.substr(0, out.size() - 2) + "}";
}

std::string values_text(const Operation& operation, const Tiling& tiling) {
  const auto& declared = operation.tiling_parameters();
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    pairs.push_back(fmt::format("{{\"{}\", {}}}", declared[i].key, tiling.values[i]));
  }
  return fmt::format("{{{}}}", fmt::join(pairs, ", "));
}

// "BlockH2NumWarps4": a tiling as a part of an identifier.
std::string identifier(const Operation& operation, const Tiling& tiling) {
  std::string out;
  const auto& declared = operation.tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    bool capital = true;
    for (const char c : declared[i].key) {
      if (c != '_') {
        out.push_back(capital && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
      }
      capital = c == '_';
    }
    out += std::to_string(tiling.values[i]);
  }
  return out;
}

std::string tests_of(const RegressionTest& test, const Operation& operation, const std::string& function,
                     const std::string& entry) {
  std::string out;
  const auto add = [&](const std::string& name, const Tiling& tiling) {
    out += fmt::format("TEST(Tileproof_{}, {}) {{ check({}(), {}(), {}); }}\n", operation.name(), name, entry, function,
                       values_text(operation, tiling));
  };
  std::vector<Tiling> seen;
  for (const Tiling& tiling : test.the_case.tilings) {
    if (std::find(seen.begin(), seen.end(), tiling) == seen.end()) {
      add(fmt::format("Pinned{}", identifier(operation, tiling)), tiling);
      seen.push_back(tiling);
    }
  }
  if (test.control && std::find(seen.begin(), seen.end(), *test.control) == seen.end()) {
    add(fmt::format("Control{}", identifier(operation, *test.control)), *test.control);
  }
  return out;
}

std::string function_of(const std::string& name, const std::string& problem) {
  return fmt::format("const Problem& {}() {{\n  static const Problem problem = {{\n{}}};\n  return problem;\n}}\n\n",
                     name, problem);
}

}  // namespace

std::string gtest_source(const RegressionTest& test) {
  const Operation& operation = *test.subject->operation;
  if (test.the_case.problem.value("sparse").number != 0) {
    throw InputError("the case is sparse, and no source file can reserve address space; leave sparse= out");
  }
  const Operation* adjoint = find_operation(operation.algebra().adjoint);
  std::optional<Problem> backward;
  if (adjoint != nullptr) {
    backward = test.the_case.problem.under(*adjoint);
    backward = adjoint->invalid(*backward) ? std::nullopt : backward;
  }
  std::string functions = function_of("problem", problem_text(test.the_case.problem, *test.subject));
  std::string tests = tests_of(test, operation, "problem", "TILEPROOF_SUBJECT");
  std::string gradients;
  if (backward) {
    functions += fmt::format("#ifdef TILEPROOF_ADJOINT_SUBJECT\n{}#endif\n\n",
                             function_of("adjoint_problem", problem_text(*backward, *test.subject)));
    tests += fmt::format("\n#ifdef TILEPROOF_ADJOINT_SUBJECT\n{}#endif\n",
                         tests_of(test, *adjoint, "adjoint_problem", "TILEPROOF_ADJOINT_SUBJECT"));
    gradients = fmt::format(
        "//   -DTILEPROOF_ADJOINT_SUBJECT=FUNCTION  likewise for its adjoint, {}: then that is tested too\n",
        adjoint->name());
  }
  const bool cuda = std::string_view(test.subject->raw->device) == "cuda";
  return with(kGtestHarness, {{"@VERSION@", TILEPROOF_VERSION},
                              {"@OPERATION@", std::string(operation.name())},
                              {"@SUBJECT@", test.subject->name},
                              {"@SIGNATURE@", test.signature},
                              {"@REPLAY@", replay_line(text(test.the_case), test.subject->name)},
                              {"@CONTROL@", test.control ? "The control passed."
                                                         : "No tiling was found that passes: there is no control."},
                              {"@GRADIENTS@", gradients},
                              {"@INCLUDE@", cuda ? "#include <cuda_runtime.h>\n" : ""},
                              {"@MEMORY@", cuda ? kGtestCudaMemory : kGtestHostMemory},
                              {"@FUNCTIONS@", functions},
                              {"@TESTS@", tests}});
}

}  // namespace tileproof
