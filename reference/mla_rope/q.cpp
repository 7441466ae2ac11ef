// mla_rope_q_fwd and mla_rope_q_bwd: in place on q or dq [token, head, nope_dim + emb_dim].
#include "mla_rope/rope_operation.h"

namespace tileproof {

namespace {

class Q : public RopeOperation {
 public:
  explicit Q(bool backward)
      : RopeOperation(backward ? "mla_rope_q_bwd" : "mla_rope_q_fwd",
                      backward ? "the adjoint of mla_rope_q_fwd, in place on dq"
                               : "rotates the rope part of every head of q in place",
                      {"nope_dim"},
                      {.inverse = true, .remove_interleaving = true, .rope_first = true, .position_ids = true}),
        backward_(backward) {
    const char* name = backward ? "dq" : "q";
    add_tensor(name, Role::inout,
               {{AxisKind::token, {"token"}}, {AxisKind::head, {"head_num"}}, {AxisKind::dim, {"nope_dim", "emb_dim"}}},
               false);
    add_tables_and_positions();
    algebra_.adjoint = backward ? "mla_rope_q_fwd" : "mla_rope_q_bwd";
    algebra_.adjoint_tensors = {{name, backward ? "q" : "dq"}};
  }

  void reference(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                 ReferenceSink& sink) const override {
    RopeRows rows(problem, declared, inputs, sink);
    const std::int64_t heads = problem.integer("head_num");
    const std::int64_t nope = problem.integer("nope_dim");
    const std::int64_t width = nope + 2 * rows.half();
    const std::int64_t rope_at = problem.flag("rope_first") ? 0 : nope;
    const std::int64_t nope_at = problem.flag("rope_first") ? 2 * rows.half() : 0;
    const std::int64_t tokens = rope_tokens(problem);
    const bool from_interleaved = interleaved(problem, false);
    const bool to_interleaved = interleaved(problem, true);
    Values first;
    Values second;
    for (std::int64_t token = 0; token < tokens; ++token) {
      rows.load_tables(token);
      for (std::int64_t row = token * heads; row < (token + 1) * heads; ++row) {
        if (nope > 0) {
          sink.copied(0, row, nope_at, 0, row * width + nope_at, nope);
        }
        rows.load(0, row * width + rope_at, from_interleaved, first, second);
        rows.rotate(backward_, first, second);
        rows.report(0, row, rope_at, to_interleaved);
      }
    }
  }

  // The other way round, where pairs come out as they went in.
  std::optional<Problem> undone_by(const Problem& problem) const override {
    if (interleaved(problem, false) != interleaved(problem, true)) {
      return std::nullopt;
    }
    Problem result = problem;
    result.set("inverse", problem.flag("inverse") ? 0 : 1);
    return result;
  }

  GroupOf groups(const Problem& problem, std::size_t tensor, bool output) const override {
    if (tensor != 0) {
      return {};
    }
    const std::int64_t nope = problem.integer("nope_dim");
    const std::int64_t half = problem.integer("emb_dim") / 2;
    const std::int64_t rope_at = problem.flag("rope_first") ? 0 : nope;
    return [nope, half, rope_at, pairs = interleaved(problem, output)](std::int64_t element) {
      const std::int64_t row = element / (nope + 2 * half);
      const std::int64_t dim = element % (nope + 2 * half);
      const std::int64_t rope = dim - rope_at;
      if (rope < 0 || rope >= 2 * half) {
        return row * (nope + half) + half + (rope < 0 ? dim : dim - 2 * half);
      }
      return row * (nope + half) + (pairs ? rope / 2 : rope % half);
    };
  }

 private:
  // Forward reads interleaved pairs and writes what the mode says; backward the other way round.
  bool interleaved(const Problem& problem, bool output) const {
    return output == backward_ || problem.flag("remove_interleaving");
  }

  bool backward_;
};

}  // namespace

std::unique_ptr<const Operation> make_mla_rope_q_fwd() { return std::make_unique<Q>(false); }
std::unique_ptr<const Operation> make_mla_rope_q_bwd() { return std::make_unique<Q>(true); }

}  // namespace tileproof
