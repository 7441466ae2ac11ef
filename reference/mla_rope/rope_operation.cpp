#include "mla_rope/rope_operation.h"

#include <algorithm>

#include <fmt/format.h>

#include "memory/counter_random.h"
#include "memory/float_bits.h"
#include "mla_rope/tables.h"

namespace tileproof {

namespace {

constexpr std::int64_t kLargestTensor = std::int64_t{1} << 29;  // elements; wide strides, not sizes, reach further
constexpr std::int64_t kPositionIdRows = 8;                     // rows of the tables at least, under position_ids

bool is_thd(const Problem& problem) { return problem.choice("layout") == "thd"; }
bool has_position_ids(const Problem& problem) { return problem.has("position_ids") && problem.flag("position_ids"); }

Parameter integer(std::string key, std::string meaning, std::int64_t min, std::int64_t max,
                  std::vector<std::int64_t> favourites = {}, std::int64_t typical = 0) {
  Parameter parameter;
  parameter.key = std::move(key);
  parameter.meaning = std::move(meaning);
  parameter.min = min;
  parameter.max = max;
  parameter.fallback.number = min;
  parameter.required = true;
  parameter.favourites = std::move(favourites);
  parameter.typical_max = typical;
  return parameter;
}

Parameter choice(std::string key, std::string meaning, std::vector<std::string> choices, bool shown) {
  Parameter parameter;
  parameter.key = std::move(key);
  parameter.kind = ParameterKind::choice;
  parameter.meaning = std::move(meaning);
  parameter.choices = std::move(choices);
  parameter.always_shown = shown;
  return parameter;
}

Parameter flag(std::string key, std::string meaning, bool shown) {
  Parameter parameter;
  parameter.key = std::move(key);
  parameter.kind = ParameterKind::flag;
  parameter.meaning = std::move(meaning);
  parameter.max = 1;
  parameter.always_shown = shown;
  return parameter;
}

std::vector<std::int64_t> global_boundaries(const Problem& problem) {
  std::vector<std::int64_t> boundaries{0};
  for (const std::int64_t length : problem.list("seqlens")) {
    boundaries.push_back(boundaries.back() + length);
  }
  return boundaries;
}

std::int64_t cp_size(const Problem& problem) { return problem.value("cp").second; }

// The zigzag map: rank r of c holds chunk r and chunk 2c-1-r of every sequence.
std::int64_t cp_position(std::int64_t token, std::int64_t length, std::int64_t rank, std::int64_t size) {
  const std::int64_t first = (length + 1) / 2;
  return token < first ? token + rank * first : token - first + size * first + (size - rank - 1) * (length / 2);
}

// How many tokens of every sequence this rank has.
template <typename Visit>
void for_each_local_length(const Problem& problem, Visit&& visit) {
  const std::int64_t size = cp_size(problem);
  std::int64_t global = 0;
  for (const std::int64_t item : problem.list("seqlens")) {
    visit((global + item) / size - global / size);
    global += item;
  }
}

// The largest position of any token, in closed form: shapes are asked for far more often than positions.
std::int64_t largest_position(const Problem& problem) {
  const Value& cp = problem.value("cp");
  std::int64_t largest = 0;
  for_each_local_length(problem, [&](std::int64_t length) {
    if (length > 0) {  // the last token of the first chunk, and of the second, which an only token does not have
      largest = std::max(largest, cp_position((length - 1) / 2, length, cp.number, cp.second));
      largest = std::max(largest, cp_position(length - 1, length, cp.number, cp.second));
    }
  });
  return largest;
}

std::int64_t table_rows(const Problem& problem) {
  if (!is_thd(problem)) {
    return std::max<std::int64_t>(1, problem.integer("seq"));
  }
  return std::max(has_position_ids(problem) ? kPositionIdRows : 1, largest_position(problem) + 1);
}

std::uint64_t data_seed(const Problem& problem) { return static_cast<std::uint64_t>(problem.value("data").second); }

}  // namespace

std::int64_t rope_tokens(const Problem& problem) {
  if (!is_thd(problem)) {
    return problem.integer("seq") * problem.integer("batch");
  }
  return global_boundaries(problem).back() / cp_size(problem) + problem.integer("pad_tokens");
}

std::vector<std::int64_t> rope_positions(const Problem& problem) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rope_tokens(problem)), 0);
  if (!is_thd(problem)) {
    const std::int64_t batch = std::max<std::int64_t>(1, problem.integer("batch"));
    for (std::size_t token = 0; token < positions.size(); ++token) {
      positions[token] = static_cast<std::int64_t>(token) / batch;
    }
    return positions;
  }
  if (has_position_ids(problem)) {
    const std::int64_t rows = table_rows(problem);
    for (std::size_t token = 0; token < positions.size(); ++token) {
      positions[token] =
          static_cast<std::int64_t>(counter_hash(data_seed(problem), 0x905, token) % static_cast<std::uint64_t>(rows));
    }
    return positions;
  }
  const Value& cp = problem.value("cp");
  const std::vector<std::int64_t> global = global_boundaries(problem);
  for (std::size_t i = 0; i + 1 < global.size(); ++i) {
    const std::int64_t begin = global[i] / cp.second;
    const std::int64_t length = global[i + 1] / cp.second - begin;
    for (std::int64_t token = 0; token < length; ++token) {
      positions[static_cast<std::size_t>(begin + token)] = cp_position(token, length, cp.number, cp.second);
    }
  }
  return positions;
}

RopeOperation::RopeOperation(std::string name, std::string summary, const std::vector<const char*>& widths, Modes modes)
    : name_(std::move(name)), summary_(std::move(summary)) {
  const auto sbhd = [](const Problem& problem) { return !is_thd(problem); };
  const auto thd = [](const Problem& problem) { return is_thd(problem); };
  parameters_.push_back(choice("dtype", "type of the data", {"f32", "f16", "bf16"}, true));
  parameters_.back().config_keys = {"torch_dtype", "dtype"};
  parameters_.back().config_words = {"float32", "float16", "bfloat16"};
  parameters_.push_back(choice("table_dtype", "type of cos and sin: the data's, or f32", {"same", "f32"}, false));
  parameters_.back().applies = [](const Problem& problem) { return problem.integer("dtype") != 0; };
  parameters_.push_back(
      choice("layout", "sbhd: token = s * batch + b; thd: packed by cu_seqlens", {"sbhd", "thd"}, true));
  parameters_.push_back(integer("seq", "tokens of a sequence, sbhd only", 0, 1 << 20, {1, 2, 3}, 16));
  parameters_.back().applies = sbhd;
  parameters_.push_back(integer("batch", "sequences side by side, sbhd only", 1, 1 << 12, {1, 2}, 4));
  parameters_.back().applies = sbhd;
  Parameter seqlens = integer("seqlens", "length of every sequence over all ranks, thd only", 0, 1 << 20, {}, 16);
  seqlens.kind = ParameterKind::list;
  seqlens.applies = thd;
  parameters_.push_back(std::move(seqlens));
  parameters_.push_back(
      integer("head_num", "heads of this rank", 1, 256, {1, 2, 3, 5, 6, 7, 10, 12, 24, 33, 48, 96, 128}, 64));
  parameters_.back().config_keys = {"num_attention_heads", "n_heads", "n_head"};
  parameters_.back().tensor_parallel = true;
  for (const char* width : widths) {
    parameters_.push_back(integer(width, "width of that part of a head", 0, 4096, {0, 4, 8, 16, 96}, 64));
    const bool value = std::string_view(width) == "v_dim";
    parameters_.back().config_keys = {value ? "v_head_dim" : "qk_nope_head_dim"};
  }
  parameters_.push_back(integer("emb_dim", "width of the rotary part", 4, 1024, {4, 8, 64, 96, 192}, 96));
  parameters_.back().multiple_of = 4;
  parameters_.back().config_keys = {"qk_rope_head_dim"};
  if (modes.inverse) {
    parameters_.push_back(flag("inverse", "rotate the other way: sin negated", true));
  }
  if (modes.remove_interleaving) {
    parameters_.push_back(
        flag("remove_interleaving", "the rotated side is interleaved too, not in split halves", true));
  }
  if (modes.rope_first) {
    parameters_.push_back(flag("rope_first", "the rope part comes before the nope part", false));
  }
  Parameter cp = integer("cp", "context parallelism, rank/size, thd only", 1, 64);
  cp.kind = ParameterKind::ratio;
  cp.required = false;
  cp.fallback = Value{.number = 0, .second = 1, .items = {}};
  cp.applies = thd;
  parameters_.push_back(std::move(cp));
  if (modes.position_ids) {
    parameters_.push_back(flag("position_ids", "a position per token replaces the map of cp, thd only", false));
    parameters_.back().applies = thd;
  }
  Parameter pad = integer("pad_tokens", "tokens behind the last boundary, thd only", 0, 1 << 16, {1, 3}, 8);
  pad.required = false;
  pad.applies = thd;
  parameters_.push_back(std::move(pad));
  parameters_.push_back(
      choice("tables", "free: any entries; yarn: real ones; turns: quarter turns", {"free", "yarn", "turns"}, false));
  parameters_.back().contents = true;
  for (Parameter& parameter : common_parameters()) {
    parameters_.push_back(std::move(parameter));
  }
  Parameter block_h = integer("block_h", "heads of one program", 1, 256);
  block_h.always_shown = true;
  Parameter num_warps = integer("num_warps", "warps of one program at most", 1, 32);
  num_warps.fallback.number = 4;
  tilings_ = {block_h, num_warps};
}

void RopeOperation::add_tensor(const char* name, Role role, std::vector<Axis> axes, bool broadcastable,
                               bool strided_dim) {
  TensorSpec spec;
  spec.name = name;
  spec.role = role;
  spec.axes = std::move(axes);
  spec.broadcastable = broadcastable;
  spec.strided_dim = strided_dim;
  tensors_.push_back(std::move(spec));
}

void RopeOperation::add_tables_and_positions() {
  for (const char* name : {"cos", "sin"}) {
    add_tensor(name, Role::in, {{AxisKind::row, {"max_seq"}}, {AxisKind::dim, {"emb_dim"}}}, false);
    tensors_.back().element = ElementType::table;
    tensors_.back().content = Content::operation;
  }
  add_tensor("cu_seqlens", Role::in, {{AxisKind::entry, {"boundaries"}}}, false);
  tensors_.back().element = ElementType::i32;
  tensors_.back().content = Content::operation;
  tensors_.back().present = is_thd;
  add_tensor("position_ids", Role::in, {{AxisKind::entry, {"token"}}}, false);
  tensors_.back().element = ElementType::i32;
  tensors_.back().content = Content::operation;
  tensors_.back().present = has_position_ids;
}

std::int64_t RopeOperation::quantity(const Problem& problem, std::string_view key) const {
  if (key == "token") {
    return rope_tokens(problem);
  }
  if (key == "seq_or_token") {
    return is_thd(problem) ? rope_tokens(problem) : problem.integer("seq");
  }
  if (key == "batch_or_1") {
    return is_thd(problem) ? 1 : problem.integer("batch");
  }
  if (key == "max_seq") {
    return table_rows(problem);
  }
  if (key == "boundaries") {
    return std::ssize(problem.list("seqlens")) + 1;
  }
  if (key == "longest_local_length" || key == "odd_local_lengths") {
    std::int64_t longest = 0;
    std::int64_t odd = 0;
    for_each_local_length(problem, [&](std::int64_t length) {
      longest = std::max(longest, length);
      odd += length % 2;
    });
    return key == "odd_local_lengths" ? odd : longest;
  }
  return problem.integer(key);
}

std::vector<std::pair<std::string, std::string>> RopeOperation::quantities() const {
  return {{"token", "tokens of this rank, padding included"},
          {"max_seq", "rows of the tables"},
          {"longest_local_length", "tokens that this rank has of the longest sequence, thd only"},
          {"odd_local_lengths", "sequences of which this rank has an odd number of tokens, thd only"}};
}

std::optional<std::string> RopeOperation::invalid(const Problem& problem) const {
  std::int64_t total = 0;
  if (is_thd(problem)) {
    total = global_boundaries(problem).back();
    if (total > (1 << 24)) {
      return fmt::format("seqlens sum to {}, expected at most {}", total, 1 << 24);
    }
  }
  if (problem.choice("data") == "exact" && problem.choice("tables") == "yarn") {
    return "tables=yarn with data=exact, expected tables=free or turns: products with YaRN entries are rounded";
  }
  for (const TensorShape& shape : shapes(problem)) {
    double elements = 1;
    for (int i = 0; i < shape.rank; ++i) {
      elements *= static_cast<double>(shape.shape[static_cast<std::size_t>(i)]);
    }
    if (elements > static_cast<double>(kLargestTensor)) {
      return fmt::format(
          "{} would hold {:.0f} elements, expected at most {}; use smaller shapes, or sparse= for wide "
          "offsets",
          shape.spec->name, elements, kLargestTensor);
    }
  }
  return std::nullopt;
}

std::vector<std::pair<const char*, std::int64_t>> RopeOperation::scalars(const Problem& problem) const {
  std::vector<std::pair<const char*, std::int64_t>> result{{"layout", problem.integer("layout")},
                                                           {"seq", quantity(problem, "seq_or_token")},
                                                           {"batch", quantity(problem, "batch_or_1")},
                                                           {"cp_rank", problem.value("cp").number},
                                                           {"cp_size", cp_size(problem)}};
  for (const char* key :
       {"head_num", "emb_dim", "nope_dim", "k_dim", "v_dim", "inverse", "remove_interleaving", "rope_first"}) {
    if (problem.has(key)) {
      result.emplace_back(key, problem.integer(key));
    }
  }
  return result;
}

void RopeOperation::fill(const Problem& problem, const TensorShape& tensor, HostTensor& out) const {
  if (tensor.spec->element == ElementType::table) {
    out.shape = tensor;
    fill_table(problem, tensor.spec->name == "cos", out);
    return;
  }
  const std::vector<std::int64_t> values =
      tensor.spec->name == "cu_seqlens" ? global_boundaries(problem) : rope_positions(problem);
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(Dtype::i32, out.bytes.data(), static_cast<std::int64_t>(i), static_cast<double>(values[i]));
  }
}

Operation::Choices RopeOperation::choices(const Problem& problem, const tileproof_arithmetic& declared,
                                          std::size_t tensor) const {
  // The only outputs without heads are sums over them.
  const auto& axes = tensors_[tensor].axes;
  const bool sums =
      std::none_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == AxisKind::head; });
  // Two factors of at most 11 digits have a product of at most 22, which f32 holds; a sum over heads has more.
  const bool exact_products = problem.choice("dtype") != "f32" && problem.choice("table_dtype") == "same" &&
                              declared.products == TILEPROOF_PRECISION_F32 && problem.choice("data") != "special" &&
                              (!sums || declared.sum_rounded_to_storage != 0);
  return {.contraction = !exact_products, .order = sums};
}

bool RopeOperation::rotates(const Problem& problem) const {
  return rope_tokens(problem) > 0 && (problem.choice("tables") == "free" || table_rows(problem) > 1);
}

std::vector<Operation::Part> RopeOperation::parts(const Problem& problem) const {
  std::vector<Part> result;
  if (!is_thd(problem)) {
    const std::int64_t batch = problem.integer("batch");
    for (std::int64_t b = 0; b < batch && problem.integer("seq") > 0; ++b) {
      Part part{problem, {}};
      part.problem.set("batch", 1);
      for (std::int64_t s = 0; s < problem.integer("seq"); ++s) {
        part.tokens.push_back(s * batch + b);
      }
      result.push_back(std::move(part));
    }
    return result;
  }
  const std::int64_t size = cp_size(problem);
  const auto& lengths = problem.list("seqlens");
  const bool whole =
      std::all_of(lengths.begin(), lengths.end(), [size](std::int64_t n) { return size == 1 || n % (2 * size) == 0; });
  if (has_position_ids(problem) || !whole) {
    return {};
  }
  const std::vector<std::int64_t> global = global_boundaries(problem);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] / size == 0) {
      continue;
    }
    Part part{problem, {}};
    part.problem.set("seqlens", Value{.number = 0, .second = 0, .items = {lengths[i]}});
    part.problem.set("pad_tokens", 0);
    for (std::int64_t token = global[i] / size; token < global[i + 1] / size; ++token) {
      part.tokens.push_back(token);
    }
    result.push_back(std::move(part));
  }
  return result;
}

std::optional<Problem> RopeOperation::invertible(const Problem& problem) const {
  Problem result = problem;
  result.set("tables", problem.choice("data") == "exact" ? 2 : 1);
  return result;
}

}  // namespace tileproof
