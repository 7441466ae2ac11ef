// Every property can fail: for each, a kernel that is right in all but the one thing that the property is there for.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "execute/executor.h"
#include "execute/subject.h"
#include "search/engine.h"

namespace tileproof {
namespace {

const tileproof_tensor* find(const tileproof_launch& launch, std::string_view name) {
  const auto* end = launch.tensors + launch.tensor_count;
  const auto* found = std::find_if(launch.tensors, end, [&](const auto& tensor) { return tensor.name == name; });
  return found == end ? nullptr : found;
}

std::int64_t tiling_value(const tileproof_launch& launch, std::string_view key) {
  const auto* end = launch.tiling + launch.tiling_count;
  return std::find_if(launch.tiling, end, [&](const auto& value) { return value.name == key; })->value;
}

// The first tensor of each operation is its data; cases here are f32.
float* data(const tileproof_launch& launch) { return static_cast<float*>(launch.tensors[0].data); }
std::string output_name(const tileproof_launch& launch) { return find(launch, "out") != nullptr ? "out" : "q"; }

// The last column of a row of heads, which is always a rotated one.
float* rotated(const tileproof_launch& launch, std::int64_t head) {
  const tileproof_tensor& out = *find(launch, output_name(launch));
  const int head_axis = out.rank - 2;
  return static_cast<float*>(out.data) + head * out.strides[head_axis] +
         (out.shape[out.rank - 1] - 1) * out.strides[out.rank - 1];
}

// The smallest difference there is: within every bound, and seen only by who compares bits.
void flip_last_bit(float* value) { *value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(*value) ^ 1U); }

std::int32_t clean(const tileproof_launch* launch) {
  const Subject* subject =
      clean_subject(find(*launch, "out") != nullptr ? "mla_rope_concat_fwd" : "mla_rope_q_fwd", "cpu");
  return subject->raw->launch(launch);
}

template <typename Damage>
std::int32_t after_clean(const tileproof_launch* launch, Damage damage) {
  const std::int32_t status = clean(launch);
  damage(*launch);
  return status;
}

using Launch = std::int32_t (*)(const tileproof_launch*);

struct Saboteur {
  const char* property;  // that must fail
  const char* operation;
  Launch launch;
  std::set<std::string> also;  // that may fail with it
};

void PrintTo(const Saboteur& saboteur, std::ostream* out) { *out << saboteur.property; }

std::int32_t wrong_value(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) { *rotated(l, 0) *= 1.0001F; });
}
std::int32_t wrong_copy(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) { flip_last_bit(data(l)); });
}
std::int32_t sees_block_h(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (tiling_value(l, "block_h") == 4) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t sees_block_h_in_sixteen_bits(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    const tileproof_tensor& q = l.tensors[0];
    const std::int64_t last = q.shape[2] - 1;
    if (tiling_value(l, "block_h") == 4) {
      static_cast<std::uint16_t*>(q.data)[last * q.strides[2]] ^= 1U;
    }
  });
}
std::int32_t sees_num_warps(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (tiling_value(l, "num_warps") > 1) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t sees_thread_order(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (l.thread_order == TILEPROOF_SHUFFLED) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t writes_before(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) { data(l)[-1] = 1; });
}
std::int32_t writes_what_one_canary_holds(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (!std::isnan(data(l)[-1])) {
      static const float seen = data(l)[-1];
      data(l)[-1] = seen;
    } else {
      data(l)[-1] = 0;
    }
  });
}
std::int32_t reads_before(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (std::isnan(data(l)[-1])) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t writes_an_input(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) { static_cast<float*>(find(l, "cos")->data)[1] += 1; });
}
std::int32_t leaves_an_output(const tileproof_launch* launch) {
  const float before = *rotated(*launch, 2);
  return after_clean(launch, [before](const tileproof_launch& l) { *rotated(l, 2) = before; });
}
std::int32_t sees_sequences(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (find(l, "cu_seqlens")->shape[0] > 2) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t sees_head(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) { flip_last_bit(rotated(l, 1)); });
}
std::int32_t sees_stride(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (l.tensors[0].strides[1] > l.tensors[0].shape[2]) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t sees_alignment(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (reinterpret_cast<std::uintptr_t>(l.tensors[0].data) % 16 != 0) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t remembers_the_last_problem(const tileproof_launch* launch) {
  static float last = 0;
  const float now = static_cast<const float*>(find(*launch, "cos")->data)[0];
  const bool other = last != 0 && last != now;
  last = now;
  return after_clean(launch, [other](const tileproof_launch& l) {
    if (other) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
// Caches by shape: the tables of the first problem of a shape serve for all that have as many heads.
std::int32_t remembers_a_shape(const tileproof_launch* launch) {
  static std::int64_t last = 0;
  const std::int64_t now = launch->tensors[0].shape[1];
  const bool other = last != 0 && last != now;
  last = now;
  return after_clean(launch, [other](const tileproof_launch& l) {
    if (other) {
      flip_last_bit(rotated(l, 0));
    }
  });
}
std::int32_t writes_behind_when_shifted(const tileproof_launch* launch) {
  return after_clean(launch, [](const tileproof_launch& l) {
    if (reinterpret_cast<std::uintptr_t>(l.tensors[0].data) % 16 != 0) {
      data(l)[-1] = 1;
    }
  });
}
std::int32_t fails_with_a_shifted_base(const tileproof_launch* launch) {
  if (reinterpret_cast<std::uintptr_t>(launch->tensors[0].data) % 16 != 0) {
    std::strncpy(launch->message, "misaligned address", launch->message_size);
    return TILEPROOF_FAILED;
  }
  return clean(launch);
}
// Both halves of the pair are off by a rotation of its own: a right kernel of another operation.
std::int32_t turns_the_other_way(const tileproof_launch* launch) {
  std::vector<tileproof_named_value> scalars(launch->scalars, launch->scalars + launch->scalar_count);
  for (tileproof_named_value& scalar : scalars) {
    scalar.value = std::string_view(scalar.name) == "inverse" ? 1 - scalar.value : scalar.value;
  }
  tileproof_launch other = *launch;
  other.scalars = scalars.data();
  return clean(&other);
}

constexpr const char* kQ =
    "mla_rope_q_fwd dtype=f32 layout=thd seqlens=3,2 head_num=6 nope_dim=8 emb_dim=8 inverse=0 remove_interleaving=0 "
    "data=normal:5 | block_h=6 num_warps=1 ; block_h=4 num_warps=1 ; block_h=3 num_warps=1";
constexpr const char* kConcat =
    "mla_rope_concat_fwd dtype=f32 layout=thd seqlens=3,2 head_num=6 nope_dim=8 emb_dim=8 data=normal:5 | block_h=6 "
    "num_warps=1 ; block_h=4 num_warps=1 ; block_h=3 num_warps=1";

std::set<std::string> failed_properties(const Saboteur& saboteur, const std::string& recipe, bool pins_contraction,
                                        const std::string& dtype = "f32") {
  std::string line = std::string_view(saboteur.operation) == "mla_rope_q_fwd" ? kQ : kConcat;
  line.replace(line.find("normal"), std::string("normal").size(), recipe);
  line.replace(line.find("f32"), 3, dtype);
  const Case c = parse_case(line);
  const Subject& honest = *clean_subject(saboteur.operation, "cpu");
  tileproof_subject raw = *honest.raw;
  raw.launch = saboteur.launch;
  raw.arithmetic.contraction_free = pins_contraction ? 0 : 1;
  Subject subject = honest;
  subject.raw = &raw;
  const std::vector<const Property*> properties = matching_properties({});
  Engine engine(make_cpu_executor());
  const std::vector<Judged> judged = engine.check(subject, {&c, 1}, properties).front();
  std::set<std::string> failed;
  for (std::size_t i = 0; i < properties.size(); ++i) {
    if (judged[i].verdict == Verdict::failed) {
      failed.emplace(properties[i]->name());
    }
  }
  return failed;
}

class EveryProperty : public ::testing::TestWithParam<Saboteur> {};

TEST_P(EveryProperty, FailsOnWhatItIsThereForAndOthersDoNot) {
  std::set<std::string> failed = failed_properties(GetParam(), "normal", true);
  EXPECT_EQ(failed.count(GetParam().property), 1U);
  failed.erase(GetParam().property);
  // A last bit more can be past the bound already.
  failed.erase("oracle");
  for (const std::string& other : failed) {
    EXPECT_EQ(GetParam().also.count(other), 1U) << other << " failed too";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryProperty,
    ::testing::Values(Saboteur{"oracle",
                               "mla_rope_q_fwd",
                               wrong_value,
                               {"adjoint", "round_trip", "head_permutation", "packing_invariance"}},
                      Saboteur{"oracle",
                               "mla_rope_q_fwd",
                               wrong_copy,
                               {"adjoint", "round_trip", "head_permutation", "packing_invariance"}},
                      Saboteur{"adjoint", "mla_rope_q_fwd", turns_the_other_way, {"round_trip"}},
                      Saboteur{"round_trip", "mla_rope_q_fwd", turns_the_other_way, {"adjoint"}},
                      Saboteur{"block_invariance", "mla_rope_q_fwd", sees_block_h, {}},
                      Saboteur{"schedule_invariance", "mla_rope_q_fwd", sees_num_warps, {}},
                      Saboteur{"schedule_invariance", "mla_rope_q_fwd", sees_thread_order, {}},
                      Saboteur{"guards", "mla_rope_q_fwd", writes_before, {}},
                      Saboteur{"guards", "mla_rope_q_fwd", writes_what_one_canary_holds, {}},
                      Saboteur{"poison_invariance", "mla_rope_q_fwd", reads_before, {}},
                      Saboteur{"inputs_preserved", "mla_rope_q_fwd", writes_an_input, {}},
                      Saboteur{"outputs_written",
                               "mla_rope_concat_fwd",
                               leaves_an_output,
                               {"adjoint", "round_trip", "head_permutation", "packing_invariance", "stride_invariance",
                                "alignment_invariance"}},
                      Saboteur{"packing_invariance", "mla_rope_q_fwd", sees_sequences, {"head_permutation"}},
                      Saboteur{"head_permutation", "mla_rope_q_fwd", sees_head, {"packing_invariance"}},
                      Saboteur{"stride_invariance", "mla_rope_q_fwd", sees_stride, {}},
                      Saboteur{"alignment_invariance", "mla_rope_q_fwd", sees_alignment, {"stride_invariance"}},
                      Saboteur{"call_order", "mla_rope_q_fwd", remembers_the_last_problem, {"packing_invariance"}},
                      Saboteur{"call_order", "mla_rope_q_fwd", remembers_a_shape, {}},
                      Saboteur{"guards", "mla_rope_q_fwd", writes_behind_when_shifted, {}},
                      Saboteur{"launch_valid", "mla_rope_q_fwd", fails_with_a_shifted_base, {}}));

// A kernel whose compiler may contract as it likes owes the same bits only where the data leaves no choice.
TEST(FreeContraction, MayShowWithinTheBoundButNotOnExactData) {
  const Saboteur rounds_otherwise{"block_invariance", "mla_rope_q_fwd", sees_block_h, {}};
  EXPECT_EQ(failed_properties(rounds_otherwise, "normal", true).count("block_invariance"), 1U);
  EXPECT_EQ(failed_properties(rounds_otherwise, "normal", false).count("block_invariance"), 0U);
  EXPECT_EQ(failed_properties(rounds_otherwise, "exact", false).count("block_invariance"), 1U);
}

// Products of 16-bit factors are exact in f32: contraction has nothing to round otherwise.
TEST(FreeContraction, CannotShowInSixteenBitsUnlessTheTablesAreWider) {
  const Saboteur rounds_otherwise{"block_invariance", "mla_rope_q_fwd", sees_block_h_in_sixteen_bits, {}};
  for (const std::string dtype : {"bf16", "f16"}) {
    const std::string wide = dtype + " table_dtype=f32";
    EXPECT_EQ(failed_properties(rounds_otherwise, "normal", false, dtype).count("block_invariance"), 1U) << dtype;
    EXPECT_EQ(failed_properties(rounds_otherwise, "normal", false, wide).count("block_invariance"), 0U) << dtype;
  }
}

std::int32_t refuses(const tileproof_launch* launch) {
  std::strncpy(launch->message, "not today", launch->message_size);
  return TILEPROOF_REFUSED;
}

TEST(ARefusal, IsAnOutcomeOfItsOwnAndNeverAPass) {
  const Case c = parse_case(kQ);
  const Subject& honest = *clean_subject("mla_rope_q_fwd", "cpu");
  tileproof_subject raw = *honest.raw;
  raw.launch = refuses;
  Subject refusing = honest;
  refusing.raw = &raw;
  Subject limited = honest;
  limited.limits.push_back(parse_limit("head_num multiple of 4"));
  Subject narrow = honest;
  narrow.limits.push_back(parse_limit("block_h power of two"));
  Engine engine(make_cpu_executor());
  for (const Subject* subject : {&refusing, &limited, &narrow}) {
    const auto verdicts = engine.check(*subject, {&c, 1}, matching_properties({"oracle", "guards", "launch_valid"}));
    for (const Judged& judged : verdicts.front()) {
      EXPECT_EQ(judged.verdict, Verdict::refused);
      EXPECT_FALSE(judged.reason.empty());
    }
  }
}

TEST(EveryPropertyOfTheList, HasASaboteurHere) {
  const std::vector<const Property*> properties = matching_properties({});
  const auto sanitizing = std::count_if(properties.begin(), properties.end(), [](auto* p) { return p->sanitizes(); });
  EXPECT_EQ(properties.size() - static_cast<std::size_t>(sanitizing), 15U)
      << "a new property needs a kernel that fails it";
  EXPECT_EQ(sanitizing, 5) << "theirs are in small_kernels_test.cpp and sanitizer_test.cpp";
}

}  // namespace
}  // namespace tileproof
