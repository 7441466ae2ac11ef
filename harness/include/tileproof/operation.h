// tileproof/operation.h: what an operation is, declared once and read everywhere.
//
// An operation is a mathematical function on named tensors. It declares its parameters, its tensors with their
// axes, what fills them, its reference with error bounds, and its algebra. Generator, text, arena, plug-in ABI,
// reference, `list` and every property read this declaration; none of them knows an operation by name.
//
// To add one: derive from Operation, and register it with register_operation() from a function that
// reference/operations.cpp calls. See reference/mla_rope for six of them.
#ifndef TILEPROOF_OPERATION_H
#define TILEPROOF_OPERATION_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tileproof/bytes.h"
#include "tileproof/model.h"
#include "tileproof/plugin.h"

namespace tileproof {

enum class Role { in, out, inout };
enum class ElementType { data, table, i32 };  // data: parameter dtype; table: parameter table_dtype ("same" or f32)
enum class Content { recipe, operation };     // filled by the data recipe of the case, or by Operation::fill

// Which kind of axis; pads, broadcasts, sparse strides and permutations address axes by kind.
enum class AxisKind { token, batch, head, dim, row, entry };
std::string_view name_of(AxisKind kind);

struct Axis {
  AxisKind kind;
  std::vector<std::string>
      terms;  // length = sum of these quantities (Operation::quantity), e.g. {"nope_dim","emb_dim"}
};

struct TensorSpec {
  std::string name;
  Role role = Role::in;
  ElementType element = ElementType::data;
  std::vector<Axis> axes;  // outermost first
  Content content = Content::recipe;
  bool broadcastable = false;  // stride 0 along head or token is legal (in tensors only)
  bool strided_dim = false;    // the innermost stride may exceed 1
  // When the tensor exists at all; an axis of length 0 makes it absent too. Empty: always.
  std::function<bool(const Problem&)> present;
};

// A tensor of a concrete problem.
struct TensorShape {
  const TensorSpec* spec = nullptr;
  std::size_t index = 0;  // into Operation::tensors()
  Dtype dtype = Dtype::f32;
  int rank = 0;
  std::array<std::int64_t, TILEPROOF_MAX_RANK> shape{};
  std::int64_t elements() const;
  std::int64_t row_length() const { return shape[static_cast<std::size_t>(rank - 1)]; }  // innermost axis
  std::int64_t rows() const { return row_length() == 0 ? 0 : elements() / row_length(); }
  int axis(AxisKind kind) const;  // -1 when it has none
};

// A packed (row-major, no gaps) tensor in host memory.
struct HostTensor {
  TensorShape shape;
  Bytes bytes;
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  double at(std::int64_t element) const;  // the element as a double
};

// Indexed by the tensor's position in Operation::tensors(); absent tensors have no bytes.
using HostTensors = std::vector<HostTensor>;

// The reference speaks to a sink row by row, so that a judge can compare without storing a second copy.
// Rows are those of the packed output tensor (all axes but the innermost, row-major).
class ReferenceSink {
 public:
  virtual ~ReferenceSink() = default;
  // out[tensor][row][dim .. dim+count) are bit copies of in[source][source_element .. +count).
  virtual void copied(std::size_t tensor, std::int64_t row, std::int64_t dim, std::size_t source,
                      std::int64_t source_element, std::int64_t count) = 0;
  // out[tensor][row][dim + i*step] has value[i], and a correct subject is within bound[i] of it, i < count.
  // bound[i] == 0 on exact data: then it must be equal (with +0 == -0). An infinite or NaN value must be that value or
  // a NaN again. An infinite bound promises nothing (an intermediate may overflow).
  virtual void computed(std::size_t tensor, std::int64_t row, std::int64_t dim, std::int64_t step, const double* value,
                        const double* bound, std::int64_t count) = 0;
  // Called when the exact recipe was claimed but a product, sum or result is not representable.
  virtual void inexact(std::size_t tensor, std::int64_t row, const std::string& what) = 0;
};

// How outputs of this operation respond when its partner runs on them: see the properties round_trip and adjoint.
struct Algebra {
  std::string adjoint;  // name of the operation that is the transpose, or ""
  // Tensor pairs (mine, partner's): for the adjoint, my out is its in and my in is its out (recipe tensors only).
  std::vector<std::pair<std::string, std::string>> adjoint_tensors;
};

class Operation {
 public:
  virtual ~Operation() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // one line for `list`

  const std::vector<Parameter>& parameters() const { return parameters_; }  // own, then common to all
  const std::vector<Parameter>& tiling_parameters() const { return tilings_; }
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  std::size_t parameter_index(std::string_view key) const;  // npos when there is none
  std::size_t tensor_index(std::string_view tensor) const;  // npos when there is none

  // A named length: any integer parameter, or a quantity the operation derives (token, max_seq, ...).
  virtual std::int64_t quantity(const Problem& problem, std::string_view key) const;
  // Those that it derives and that a person may name, in a condition under which a subject fails: key and meaning.
  virtual std::vector<std::pair<std::string, std::string>> quantities() const { return {}; }

  // What single parameters cannot say (products of limits, cross conditions). Empty: fine.
  virtual std::optional<std::string> invalid(const Problem& problem) const = 0;

  std::vector<TensorShape> shapes(const Problem& problem) const;  // present tensors only, in declared order
  std::optional<TensorShape> shape(const Problem& problem, std::size_t tensor) const;

  // Names and values handed to a subject by value.
  virtual std::vector<std::pair<const char*, std::int64_t>> scalars(const Problem& problem) const = 0;

  // Fills a tensor whose content is Content::operation (tables, cu_seqlens, position_ids), packed.
  virtual void fill(const Problem& problem, const TensorShape& tensor, HostTensor& out) const = 0;

  // The right answer for `inputs`, with bounds for the arithmetic that the subject declares.
  virtual void reference(const Problem& problem, const tileproof_arithmetic& arithmetic, const HostTensors& inputs,
                         ReferenceSink& sink) const = 0;

  // Whether contraction, or the order of a sum, could show in the bits of an output tensor at all, under the declared
  // arithmetic: products that are exact leave contraction no choice, and where nothing is summed there is no order.
  struct Choices {
    bool contraction = true;
    bool order = true;
  };
  virtual Choices choices(const Problem&, const tileproof_arithmetic&, std::size_t /*tensor*/) const { return {}; }

  virtual Algebra algebra() const { return {}; }
  // Names a set of output elements that depend on each other only: adjoint compares inner products per group, so
  // that one wrong element is not drowned. `element` is packed row-major in tensor `tensor` (in or out). Groups of
  // an in tensor and an out tensor share one numbering, dense from 0.
  // `output` says whether the tensor is meant as it goes in or as it comes out (in-place operations permute).
  // Returns what gives the number of the group of an element; empty: the tensor has none.
  using GroupOf = std::function<std::int64_t(std::int64_t element)>;
  virtual GroupOf groups(const Problem& problem, std::size_t tensor, bool output) const;

  // Whether a token's output can differ from its input by more than a copy, i.e. an overrun can show in values.
  virtual bool rotates(const Problem& problem) const = 0;

  // Independent parts along the token axis: the problem of each part and the tokens (of the token axis) it has.
  // Empty: the operation does not decompose under this problem. See packing_invariance.
  struct Part {
    Problem problem;
    std::vector<std::int64_t> tokens;  // index along the token axis of every token tensor of the whole
  };
  virtual std::vector<Part> parts(const Problem& problem) const = 0;

  // Whether the results do not depend on the order of heads (each head alone, or a sum over them).
  virtual bool head_equivariant() const = 0;
  // Tables whose two halves agree, so that the adjoint undoes the rotation up to |c^2+s^2-1|.
  virtual std::optional<Problem> invertible(const Problem& problem) const = 0;
  // The problem under which this same operation undoes itself on such tables, where there is one.
  virtual std::optional<Problem> undone_by(const Problem&) const { return std::nullopt; }

 protected:
  std::vector<Parameter> parameters_;
  std::vector<Parameter> tilings_;
  std::vector<TensorSpec> tensors_;
};

// Parameters every operation has (memory layout and data recipe); appended by operations after their own:
// pad_seq pad_batch pad_head pad_row (elements added to the stride of that axis; one number for every tensor, or one
// per declared tensor), dim_stride, broadcast, shift, sparse, data.
std::vector<Parameter> common_parameters();

void register_operation(std::unique_ptr<const Operation> operation);  // throws std::logic_error on a second one
const std::vector<const Operation*>& operations();
const Operation* find_operation(std::string_view name);

}  // namespace tileproof

#endif
