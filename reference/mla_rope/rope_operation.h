// What the six operations of the family share: parameters, positions, tables, and their references row by row.
//
// A head row is [nope | rope] (or [rope | nope]); the rope part holds emb_dim / 2 pairs, as interleaved pairs
// x1[0] x2[0] x1[1] x2[1] ... or as split halves x1[0] x1[1] ... x2[0] x2[1] ...
#ifndef TILEPROOF_REFERENCE_MLA_ROPE_ROPE_OPERATION_H
#define TILEPROOF_REFERENCE_MLA_ROPE_ROPE_OPERATION_H

#include <memory>
#include <vector>

#include "mla_rope/bounds.h"
#include "tileproof/operation.h"

namespace tileproof {

std::unique_ptr<const Operation> make_mla_rope_q_fwd();
std::unique_ptr<const Operation> make_mla_rope_q_bwd();
std::unique_ptr<const Operation> make_mla_rope_kv_split_fwd();
std::unique_ptr<const Operation> make_mla_rope_kv_split_bwd();
std::unique_ptr<const Operation> make_mla_rope_concat_fwd();
std::unique_ptr<const Operation> make_mla_rope_concat_bwd();

// Position of every token, padding included (position 0), from the layout, context parallelism or position_ids.
std::vector<std::int64_t> rope_positions(const Problem& problem);
std::int64_t rope_tokens(const Problem& problem);

class RopeOperation : public Operation {
 public:
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return summary_; }
  std::int64_t quantity(const Problem& problem, std::string_view key) const override;
  std::vector<std::pair<std::string, std::string>> quantities() const override;
  std::optional<std::string> invalid(const Problem& problem) const override;
  std::vector<std::pair<const char*, std::int64_t>> scalars(const Problem& problem) const override;
  void fill(const Problem& problem, const TensorShape& tensor, HostTensor& out) const override;
  Choices choices(const Problem& problem, const tileproof_arithmetic& declared, std::size_t tensor) const override;
  Algebra algebra() const override { return algebra_; }
  bool rotates(const Problem& problem) const override;
  std::vector<Part> parts(const Problem& problem) const override;
  bool head_equivariant() const override { return true; }
  std::optional<Problem> invertible(const Problem& problem) const override;

 protected:
  struct Modes {
    bool inverse = false;
    bool remove_interleaving = false;
    bool rope_first = false;
    bool position_ids = false;
  };
  RopeOperation(std::string name, std::string summary, const std::vector<const char*>& widths, Modes modes);
  void add_tensor(const char* name, Role role, std::vector<Axis> axes, bool broadcastable, bool strided_dim = false);
  void add_tables_and_positions();

  std::string name_;
  std::string summary_;
  Algebra algebra_;
};

// Reads, rotates and reports rope rows for the references. One object serves one call of reference(); its buffers are
// reused from row to row.
class RopeRows {
 public:
  RopeRows(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
           ReferenceSink& sink);

  const RopeArithmetic& arithmetic() const { return arithmetic_; }
  std::int64_t half() const { return half_; }
  void load_tables(std::int64_t token);  // of the token's position, sin negated under inverse
  // The pairs of a row that starts at packed element `start` of an input.
  void load(std::size_t tensor, std::int64_t start, bool interleaved, Values& first, Values& second) const;
  // Rotates (x1, x2), or with `adjoint` transposes the rotation of (left, right), and keeps the result for report().
  void rotate(bool adjoint, const Values& first, const Values& second, const Values* first_error = nullptr,
              const Values* second_error = nullptr);
  // Reports the last rotation as the rope part of row `row` of output `tensor`, which starts at column `dim`.
  void report(std::size_t tensor, std::int64_t row, std::int64_t dim, bool interleaved) const;
  // On exact data, reports a sum over heads that is not the same in every order.
  void prove_sum(std::size_t tensor, std::int64_t row, const Values& sum, const Values& magnitude, bool whole);

 private:
  void prove(const Component& x, const Values& value);

  const HostTensors& inputs_;
  ReferenceSink& sink_;
  RopeArithmetic arithmetic_;
  std::vector<std::int64_t> positions_;
  std::int64_t half_;
  std::int64_t loaded_position_ = -1;
  bool exact_;
  bool inverse_;
  std::size_t cos_;
  std::size_t sin_;
  Values cos_left_, cos_right_, sin_left_, sin_right_;
  Values first_value_, second_value_, first_bound_, second_bound_;
  std::string inexact_;  // why the last rotation is not exact, on exact data
};

}  // namespace tileproof

#endif
