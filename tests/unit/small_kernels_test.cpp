// Kernels that are no part of the project, through the whole of it: their sources are ordinary CUDA C++, and the
// build and a declaration of the operation are all that the sanitizer needs.
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "execute/executor.h"
#include "sanitize/address_space.h"
#include "search/engine.h"

extern "C" {
#define TILEPROOF_SMALL(kernel, build)                                           \
  const tileproof_subject* tileproof_subject_##kernel##__##build##_sanitizing(); \
  const tileproof_subject* tileproof_subject_##kernel##__##build##_zeroed();
TILEPROOF_SMALL(block_sum, small)
TILEPROOF_SMALL(last_block_sum, small)
TILEPROOF_SMALL(softmax_row, small)
TILEPROOF_SMALL(transpose, small)
TILEPROOF_SMALL(block_sum, block_sum_deadlock)
TILEPROOF_SMALL(block_sum, block_sum_no_barrier)
TILEPROOF_SMALL(block_sum, block_sum_barrier_in_branch)
TILEPROOF_SMALL(softmax_row, softmax_row_shuffle_in_branch)
TILEPROOF_SMALL(softmax_row, softmax_row_lane_without_value)
TILEPROOF_SMALL(last_block_sum, last_block_sum_no_fence)
TILEPROOF_SMALL(last_block_sum, last_block_sum_no_sync)
TILEPROOF_SMALL(transpose, transpose_no_barrier)
TILEPROOF_SMALL(transpose, transpose_no_bound)
#undef TILEPROOF_SMALL
}

namespace tileproof {
namespace {

Parameter integer(std::string key) {
  Parameter parameter;
  parameter.key = std::move(key);
  parameter.min = 1;
  parameter.max = 4096;
  parameter.required = true;
  return parameter;
}

// in [rows, cols] to out. What it computes is nobody's question here.
class SmallOperation : public Operation {
 public:
  SmallOperation(std::string name, std::vector<Axis> out) : name_(std::move(name)) {
    Parameter dtype;
    dtype.key = "dtype";
    dtype.kind = ParameterKind::choice;
    dtype.choices = {"f32"};
    parameters_ = {dtype, integer("rows"), integer("cols")};
    for (Parameter& parameter : common_parameters()) {
      parameters_.push_back(std::move(parameter));
    }
    Parameter num_warps = integer("num_warps");
    num_warps.max = 8;
    tilings_ = {num_warps};
    tensors_.resize(2);
    tensors_[0].name = "in";
    tensors_[0].axes = {{AxisKind::row, {"rows"}}, {AxisKind::dim, {"cols"}}};
    tensors_[1].name = "out";
    tensors_[1].role = Role::out;
    tensors_[1].axes = std::move(out);
    if (name_ == "last_block_sum") {
      tensors_.resize(4);
      tensors_[2].name = "counter";
      tensors_[2].role = Role::inout;
      tensors_[2].element = ElementType::i32;
      tensors_[2].content = Content::operation;
      tensors_[2].axes = {{AxisKind::entry, {"1"}}};
      tensors_[3].name = "total";
      tensors_[3].role = Role::out;
      tensors_[3].axes = {{AxisKind::row, {"1"}}, {AxisKind::dim, {"1"}}};
    }
  }
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return ""; }
  std::optional<std::string> invalid(const Problem&) const override { return std::nullopt; }
  std::vector<std::pair<const char*, std::int64_t>> scalars(const Problem&) const override { return {}; }
  void fill(const Problem&, const TensorShape&, HostTensor& out) const override {
    std::fill(out.bytes.begin(), out.bytes.end(), std::byte{0});
  }
  void reference(const Problem&, const tileproof_arithmetic&, const HostTensors&, ReferenceSink&) const override {}
  bool rotates(const Problem&) const override { return false; }
  std::vector<Part> parts(const Problem&) const override { return {}; }
  bool head_equivariant() const override { return false; }
  std::optional<Problem> invertible(const Problem&) const override { return std::nullopt; }

 private:
  std::string name_;
};

const Operation& operation_named(std::string_view name) {
  static const SmallOperation block_sum("block_sum", {{AxisKind::row, {"rows"}}, {AxisKind::dim, {"1"}}});
  static const SmallOperation last_block_sum("last_block_sum", {{AxisKind::row, {"rows"}}, {AxisKind::dim, {"1"}}});
  static const SmallOperation softmax_row("softmax_row", {{AxisKind::row, {"rows"}}, {AxisKind::dim, {"cols"}}});
  static const SmallOperation transpose("transpose", {{AxisKind::row, {"cols"}}, {AxisKind::dim, {"rows"}}});
  return name == "block_sum"        ? block_sum
         : name == "last_block_sum" ? last_block_sum
         : name == "softmax_row"    ? softmax_row
                                    : transpose;
}

Subject subject_of(const tileproof_subject* sanitizing, const tileproof_subject* zeroed) {
  Subject subject;
  subject.raw = sanitizing;  // the fast build of a fault is not part of this program
  subject.sanitizing = sanitizing;
  subject.zeroed = zeroed;
  subject.operation = &operation_named(sanitizing->operation);
  subject.name = fmt::format("cpu/{}{}", sanitizing->operation, sanitizing->variant);
  return subject;
}
#define TILEPROOF_SMALL(kernel, build) \
  subject_of(tileproof_subject_##kernel##__##build##_sanitizing(), tileproof_subject_##kernel##__##build##_zeroed())

// Every failure over shapes that fill tiles and warps, and shapes that do not.
std::vector<std::pair<std::string, Failure>> failures_of(const Subject& subject) {
  std::vector<const Property*> properties;
  for (const Property* property : all_properties()) {
    if (property->sanitizes()) {
      properties.push_back(property);
    }
  }
  Engine engine(make_cpu_executor());
  std::vector<std::pair<std::string, Failure>> failures;
  for (const std::int64_t rows : {1, 16, 19, 40}) {
    for (const std::int64_t cols : {1, 7, 32, 77}) {
      Case c{Problem(*subject.operation), {}};
      c.problem.set("rows", rows).set("cols", cols).set("data", Value{.number = 1, .second = rows, .items = {}});
      for (const std::int64_t num_warps : {1, 2, 8}) {
        Tiling tiling = default_tiling(*subject.operation);
        tiling.values = {num_warps};
        tiling.threads = num_warps == 2 ? Order::reverse : Order::forward;
        c.tilings.push_back(tiling);
      }
      const std::vector<Judged> judged = engine.check(subject, {&c, 1}, properties).front();
      for (std::size_t i = 0; i < properties.size(); ++i) {
        EXPECT_NE(judged[i].verdict, Verdict::refused) << judged[i].reason;
        if (judged[i].failure) {
          failures.emplace_back(properties[i]->name(), *judged[i].failure);
        }
      }
    }
  }
  return failures;
}

TEST(SmallKernels, AreCleanWhenTheyAreClean) {
  for (const Subject& subject : {TILEPROOF_SMALL(block_sum, small), TILEPROOF_SMALL(last_block_sum, small),
                                 TILEPROOF_SMALL(softmax_row, small), TILEPROOF_SMALL(transpose, small)}) {
    for (const auto& [property, failure] : failures_of(subject)) {
      ADD_FAILURE() << subject.name << " " << property << "\n"
                    << failure.message << "\n"
                    << fmt::format("{}", fmt::join(failure.evidence, "\n"));
    }
  }
}

// float tile[16][17] of the clean transpose, and of each faulty one; bool is_last.
TEST(SmallKernels, HaveTheirSharedArraysFoundByName) {
  std::multiset<std::pair<std::string, std::size_t>> found;
  for (const sanitize::SharedArray& array : sanitize::static_shared_arrays()) {
    found.emplace(array.name, array.bytes);
    EXPECT_LE(array.offset + array.bytes, sanitize::static_shared_memory().size()) << array.name;
  }
  EXPECT_EQ(found.count({"tile", sizeof(float[16][17])}), 3U);
  EXPECT_EQ(found.count({"is_last", sizeof(bool)}), 3U);
}

struct Planted {
  Subject subject;
  std::string property;
  std::string tensor;
  std::string where;  // of one of its failures
};

TEST(SmallKernels, ArePlantedFaultsReportedWithTheirLines) {
  const Planted planted[] = {
      {TILEPROOF_SMALL(block_sum, block_sum_deadlock), "barriers", "", "block_sum.cu:9+block_sum.cu:10"},
      {TILEPROOF_SMALL(block_sum, block_sum_no_barrier), "race_free", "shared", "block_sum.cu:11+block_sum.cu:11"},
      {TILEPROOF_SMALL(block_sum, block_sum_barrier_in_branch), "barriers", "", "block_sum.cu:13"},
      {TILEPROOF_SMALL(last_block_sum, last_block_sum_no_fence), "race_free", "out",
       "last_block_sum.cu:15+last_block_sum.cu:21"},
      {TILEPROOF_SMALL(last_block_sum, last_block_sum_no_sync), "race_free", "shared",
       "last_block_sum.cu:10+last_block_sum.cu:13"},
      {TILEPROOF_SMALL(softmax_row, softmax_row_shuffle_in_branch), "barriers", "",
       "softmax_row.cu:7+softmax_row.cu:12"},
      {TILEPROOF_SMALL(softmax_row, softmax_row_lane_without_value), "initialized", "out", "softmax_row.cu:29"},
      {TILEPROOF_SMALL(transpose, transpose_no_barrier), "race_free", "shared", "transpose.cu:10+transpose.cu:14"},
      {TILEPROOF_SMALL(transpose, transpose_no_bound), "memory_safe", "in", "transpose.cu:10"},
  };
  for (const Planted& fault : planted) {
    bool found = false;
    std::string all;
    for (const auto& [property, failure] : failures_of(fault.subject)) {
      found = found || (property == fault.property && failure.tensor == fault.tensor && failure.where == fault.where);
      all += fmt::format("{}/{}/{}/{}: {}\n", property, failure.tensor, failure.where, failure.kind, failure.message);
    }
    EXPECT_TRUE(found) << fault.subject.name << " is no " << fault.property << " of " << fault.tensor << " at "
                       << fault.where << ", but\n"
                       << all;
  }
}

}  // namespace
}  // namespace tileproof
