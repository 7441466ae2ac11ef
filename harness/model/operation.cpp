#include "tileproof/operation.h"

#include <cstring>
#include <stdexcept>

#include "memory/float_bits.h"

namespace tileproof {

namespace {

std::vector<std::unique_ptr<const Operation>>& storage() {
  static std::vector<std::unique_ptr<const Operation>> registry;
  return registry;
}

std::vector<const Operation*>& pointers() {
  static std::vector<const Operation*> list;
  return list;
}

Dtype dtype_of(ElementType element, const Problem& problem) {
  if (element == ElementType::i32) {
    return Dtype::i32;
  }
  if (element == ElementType::table && problem.integer("table_dtype") != 0) {
    return Dtype::f32;
  }
  return static_cast<Dtype>(problem.integer("dtype"));
}

Parameter strides_parameter(std::string key, std::string meaning) {
  Parameter parameter;
  parameter.key = std::move(key);
  parameter.kind = ParameterKind::list;
  parameter.meaning = std::move(meaning);
  parameter.max = 1 << 20;
  parameter.fallback.items = {0};
  parameter.max_items = 16;
  return parameter;
}

}  // namespace

std::string_view name_of(AxisKind kind) {
  constexpr std::string_view names[] = {"token", "batch", "head", "dim", "row", "entry"};
  return names[static_cast<int>(kind)];
}

std::int64_t TensorShape::elements() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank; ++i) {
    product *= shape[static_cast<std::size_t>(i)];
  }
  return product;
}

int TensorShape::axis(AxisKind kind) const {
  for (int i = 0; i < rank; ++i) {
    if (spec->axes[static_cast<std::size_t>(i)].kind == kind) {
      return i;
    }
  }
  return -1;
}

double HostTensor::at(std::int64_t element) const { return load_element(shape.dtype, bytes.data(), element); }

std::size_t Operation::parameter_index(std::string_view key) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].key == key) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::size_t Operation::tensor_index(std::string_view tensor) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == tensor) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::int64_t Operation::quantity(const Problem& problem, std::string_view key) const { return problem.integer(key); }

Operation::GroupOf Operation::groups(const Problem&, std::size_t, bool) const { return {}; }

std::optional<TensorShape> Operation::shape(const Problem& problem, std::size_t tensor) const {
  const TensorSpec& spec = tensors_[tensor];
  if (spec.present && !spec.present(problem)) {
    return std::nullopt;
  }
  TensorShape shape;
  shape.spec = &spec;
  shape.index = tensor;
  shape.dtype = dtype_of(spec.element, problem);
  shape.rank = static_cast<int>(spec.axes.size());
  for (std::size_t i = 0; i < spec.axes.size(); ++i) {
    for (const std::string& term : spec.axes[i].terms) {
      shape.shape[i] += term == "1" ? 1 : quantity(problem, term);
    }
  }
  // A tensor without columns (v_dim = 0) is not passed at all; one without tokens is, so that nothing is special.
  if (shape.row_length() == 0) {
    return std::nullopt;
  }
  return shape;
}

std::vector<TensorShape> Operation::shapes(const Problem& problem) const {
  std::vector<TensorShape> result;
  result.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (auto one = shape(problem, i)) {
      result.push_back(*one);
    }
  }
  return result;
}

std::vector<Parameter> common_parameters() {
  std::vector<Parameter> result;
  result.push_back(strides_parameter("pad_seq", "elements added to the token stride; one number, or one per tensor"));
  result.push_back(strides_parameter("pad_batch", "elements added to the batch stride, likewise"));
  result.push_back(strides_parameter("pad_head", "elements added to the head stride, likewise"));
  result.push_back(strides_parameter("pad_row", "elements added to the row stride of tables, likewise"));

  Parameter dim_stride;
  dim_stride.key = "dim_stride";
  dim_stride.meaning = "innermost stride, in elements, of the tensors that allow one";
  dim_stride.min = 1;
  dim_stride.max = 8;
  dim_stride.fallback.number = 1;
  result.push_back(dim_stride);

  Parameter broadcast;
  broadcast.key = "broadcast";
  broadcast.kind = ParameterKind::choice;
  broadcast.meaning = "inputs that allow it have stride 0 along this axis";
  broadcast.choices = {"none", "head", "token"};
  result.push_back(broadcast);

  Parameter shift;
  shift.key = "shift";
  shift.meaning = "elements by which every base address is moved off 256-byte alignment";
  shift.max = 64;
  result.push_back(shift);

  Parameter sparse;
  sparse.key = "sparse";
  sparse.kind = ParameterKind::tagged;
  sparse.meaning = "the stride of this axis is so wide that its last offset passes 2^number elements";
  sparse.choices = {"none", "token", "head", "row"};
  sparse.min = 20;
  sparse.max = 33;
  result.push_back(sparse);

  Parameter data;
  data.key = "data";
  data.kind = ParameterKind::tagged;
  data.meaning = "recipe of the contents, with its seed";
  data.choices = {"exact", "normal", "index", "special"};
  data.min = 0;
  data.max = 999'999'999;
  data.always_shown = true;
  data.contents = true;
  result.push_back(data);
  return result;
}

void register_operation(std::unique_ptr<const Operation> operation) {
  if (find_operation(operation->name()) != nullptr) {
    throw std::logic_error("operation '" + std::string(operation->name()) + "' is registered twice");
  }
  pointers().push_back(operation.get());
  storage().push_back(std::move(operation));
}

const std::vector<const Operation*>& operations() { return pointers(); }

const Operation* find_operation(std::string_view name) {
  for (const Operation* operation : pointers()) {
    if (operation->name() == name) {
      return operation;
    }
  }
  return nullptr;
}

}  // namespace tileproof
