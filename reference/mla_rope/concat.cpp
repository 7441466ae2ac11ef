// mla_rope_concat_fwd: rope is rotated per head and appended after nope, in split halves. mla_rope_concat_bwd is its
// adjoint. Tensors are [seq, batch, head, dim] with a stride of their own on every axis; packed sequences have batch 1.
#include "mla_rope/rope_operation.h"

namespace tileproof {

namespace {

std::vector<Axis> axes(std::vector<std::string> width) {
  return {{AxisKind::token, {"seq_or_token"}},
          {AxisKind::batch, {"batch_or_1"}},
          {AxisKind::head, {"head_num"}},
          {AxisKind::dim, std::move(width)}};
}

constexpr std::size_t kNope = 0;
constexpr std::size_t kRope = 1;
constexpr std::size_t kOut = 2;

class Concat : public RopeOperation {
 public:
  explicit Concat(bool backward)
      : RopeOperation(
            backward ? "mla_rope_concat_bwd" : "mla_rope_concat_fwd",
            backward ? "the adjoint of mla_rope_concat_fwd" : "rotates rope per head and appends it after nope",
            {"nope_dim"}, {}),
        backward_(backward) {
    const Role parts = backward ? Role::out : Role::in;
    const Role whole = backward ? Role::in : Role::out;
    add_tensor(backward ? "dnope" : "nope", parts, axes({"nope_dim"}), !backward, true);
    add_tensor(backward ? "drope" : "rope", parts, axes({"emb_dim"}), !backward, true);
    add_tensor(backward ? "dout" : "out", whole, axes({"nope_dim", "emb_dim"}), backward, true);
    add_tables_and_positions();
    if (backward) {
      algebra_ = {"mla_rope_concat_fwd", {{"dnope", "nope"}, {"drope", "rope"}, {"dout", "out"}}};
    } else {
      algebra_ = {"mla_rope_concat_bwd", {{"nope", "dnope"}, {"rope", "drope"}, {"out", "dout"}}};
    }
  }

  void reference(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                 ReferenceSink& sink) const override {
    RopeRows rows(problem, declared, inputs, sink);
    const std::int64_t heads = problem.integer("head_num");
    const std::int64_t nope = problem.integer("nope_dim");
    const std::int64_t emb = 2 * rows.half();
    const std::int64_t tokens = rope_tokens(problem);
    Values first;
    Values second;
    for (std::int64_t token = 0; token < tokens; ++token) {
      rows.load_tables(token);
      for (std::int64_t row = token * heads; row < (token + 1) * heads; ++row) {
        if (backward_) {
          if (nope > 0) {
            sink.copied(kNope, row, 0, kOut, row * (nope + emb), nope);
          }
          rows.load(kOut, row * (nope + emb) + nope, false, first, second);
          rows.rotate(true, first, second);
          rows.report(kRope, row, 0, true);
        } else {
          if (nope > 0) {
            sink.copied(kOut, row, 0, kNope, row * nope, nope);
          }
          rows.load(kRope, row * emb, true, first, second);
          rows.rotate(false, first, second);
          rows.report(kOut, row, nope, false);
        }
      }
    }
  }

  GroupOf groups(const Problem& problem, std::size_t tensor, bool) const override {
    const std::int64_t nope = problem.integer("nope_dim");
    const std::int64_t half = problem.integer("emb_dim") / 2;
    const std::int64_t per_row = nope + half;
    switch (tensor) {
      case kNope: return [=](std::int64_t element) { return element / nope * per_row + element % nope; };
      case kRope:
        return [=](std::int64_t element) { return element / (2 * half) * per_row + nope + element % (2 * half) / 2; };
      case kOut:
        return [=](std::int64_t element) {
          const std::int64_t row = element / (nope + 2 * half);
          const std::int64_t column = element % (nope + 2 * half);
          return row * per_row + (column < nope ? column : nope + (column - nope) % half);
        };
      default: return {};
    }
  }

 private:
  bool backward_;
};

}  // namespace

std::unique_ptr<const Operation> make_mla_rope_concat_fwd() { return std::make_unique<Concat>(false); }
std::unique_ptr<const Operation> make_mla_rope_concat_bwd() { return std::make_unique<Concat>(true); }

}  // namespace tileproof
