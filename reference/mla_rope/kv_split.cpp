// mla_rope_kv_split_fwd: kv [token, head, k_dim + v_dim] is split into key and value, and the token's rotated k_pos_emb
// row is appended to the key of every head. mla_rope_kv_split_bwd is its adjoint: demb is the adjoint rotation of the
// sum over heads of dkey's rope part.
#include <cmath>

#include "mla_rope/rope_operation.h"

namespace tileproof {

namespace {

Axis token() { return {AxisKind::token, {"token"}}; }
Axis head() { return {AxisKind::head, {"head_num"}}; }
Axis dim(std::vector<std::string> terms) { return {AxisKind::dim, std::move(terms)}; }

struct Widths {
  explicit Widths(const Problem& problem)
      : heads(problem.integer("head_num")),
        k(problem.integer("k_dim")),
        v(problem.integer("v_dim")),
        half(problem.integer("emb_dim") / 2),
        remove_interleaving(problem.flag("remove_interleaving")) {}
  std::int64_t kv() const { return k + v; }
  std::int64_t key() const { return k + 2 * half; }
  std::int64_t heads, k, v, half;
  bool remove_interleaving;
};

// Both directions have the tensors (kv, k_pos_emb) on one side and (key, value) on the other, at these indices.
constexpr std::size_t kKv = 0;
constexpr std::size_t kPosEmb = 1;
constexpr std::size_t kKey = 2;
constexpr std::size_t kValue = 3;

class KvSplit : public RopeOperation {
 public:
  explicit KvSplit(bool backward)
      : RopeOperation(backward ? "mla_rope_kv_split_bwd" : "mla_rope_kv_split_fwd",
                      backward ? "the adjoint of mla_rope_kv_split_fwd: dkv, and demb summed over heads"
                               : "splits kv into key and value and appends the rotated k_pos_emb to every key",
                      {"k_dim", "v_dim"},
                      {.inverse = false, .remove_interleaving = true, .rope_first = false, .position_ids = false}) {
    const Role narrow = backward ? Role::out : Role::in;
    const Role wide = backward ? Role::in : Role::out;
    add_tensor(backward ? "dkv" : "kv", narrow, {token(), head(), dim({"k_dim", "v_dim"})}, !backward);
    add_tensor(backward ? "demb" : "k_pos_emb", narrow, {token(), dim({"emb_dim"})}, !backward);
    add_tensor(backward ? "dkey" : "key", wide, {token(), head(), dim({"k_dim", "emb_dim"})}, backward);
    add_tensor(backward ? "dvalue" : "value", wide, {token(), head(), dim({"v_dim"})}, backward);
    add_tables_and_positions();
    if (backward) {
      algebra_ = {"mla_rope_kv_split_fwd",
                  {{"dkv", "kv"}, {"demb", "k_pos_emb"}, {"dkey", "key"}, {"dvalue", "value"}}};
    } else {
      algebra_ = {"mla_rope_kv_split_bwd",
                  {{"kv", "dkv"}, {"k_pos_emb", "demb"}, {"key", "dkey"}, {"value", "dvalue"}}};
    }
  }

  // One numbering for both sides: the k and v columns of every head, then the rope pairs of the token.
  GroupOf groups(const Problem& problem, std::size_t tensor, bool) const override {
    const Widths w(problem);
    const std::int64_t per_token = w.heads * w.kv() + w.half;
    switch (tensor) {
      case kKv:
        return [=](std::int64_t element) {
          return element / (w.heads * w.kv()) * per_token + element % (w.heads * w.kv());
        };
      case kPosEmb:  // always interleaved
        return [=](std::int64_t element) {
          return element / (2 * w.half) * per_token + w.heads * w.kv() + element % (2 * w.half) / 2;
        };
      case kKey:
        return [=](std::int64_t element) {
          const std::int64_t row = element / w.key();
          const std::int64_t column = element % w.key();
          const std::int64_t start = row / w.heads * per_token;
          const std::int64_t rope = column - w.k;
          return rope < 0 ? start + row % w.heads * w.kv() + column
                          : start + w.heads * w.kv() + (w.remove_interleaving ? rope / 2 : rope % w.half);
        };
      case kValue:
        return [=](std::int64_t element) {
          const std::int64_t row = element / w.v;
          return row / w.heads * per_token + row % w.heads * w.kv() + w.k + element % w.v;
        };
      default: return {};
    }
  }
};

class KvSplitFwd : public KvSplit {
 public:
  KvSplitFwd() : KvSplit(false) {}

  void reference(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                 ReferenceSink& sink) const override {
    RopeRows rows(problem, declared, inputs, sink);
    const Widths w(problem);
    const std::int64_t tokens = rope_tokens(problem);
    Values first;
    Values second;
    for (std::int64_t t = 0; t < tokens; ++t) {
      rows.load_tables(t);
      rows.load(kPosEmb, t * 2 * w.half, true, first, second);
      rows.rotate(false, first, second);  // once for all heads
      for (std::int64_t row = t * w.heads; row < (t + 1) * w.heads; ++row) {
        if (w.k > 0) {
          sink.copied(kKey, row, 0, kKv, row * w.kv(), w.k);
        }
        if (w.v > 0) {
          sink.copied(kValue, row, 0, kKv, row * w.kv() + w.k, w.v);
        }
        rows.report(kKey, row, w.k, w.remove_interleaving);
      }
    }
  }
};

class KvSplitBwd : public KvSplit {
 public:
  KvSplitBwd() : KvSplit(true) {}

  void reference(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                 ReferenceSink& sink) const override {
    RopeRows rows(problem, declared, inputs, sink);
    const Widths w(problem);
    const std::int64_t tokens = rope_tokens(problem);
    Sums sums;
    for (std::int64_t t = 0; t < tokens; ++t) {
      rows.load_tables(t);
      sums.clear(w.half);
      for (std::int64_t row = t * w.heads; row < (t + 1) * w.heads; ++row) {
        if (w.k > 0) {
          sink.copied(kKv, row, 0, kKey, row * w.key(), w.k);
        }
        if (w.v > 0) {
          sink.copied(kKv, row, w.k, kValue, row * w.v, w.v);
        }
        rows.load(kKey, row * w.key() + w.k, w.remove_interleaving, sums.first, sums.second);
        sums.add();
      }
      report_sum(rows, w, t, sums);
    }
  }

 private:
  struct Sums {
    void clear(std::int64_t half) {
      for (Values* values : {&first_sum, &second_sum, &first_magnitude, &second_magnitude}) {
        *values = Values::Zero(half);
      }
      whole = true;
    }
    void add() {
      first_sum += first;
      second_sum += second;
      first_magnitude += first.abs();
      second_magnitude += second.abs();
      whole = whole && (first == first.rint()).all() && (second == second.rint()).all();
    }
    Values first, second, first_sum, second_sum, first_magnitude, second_magnitude;
    Values first_bound, second_bound;
    bool whole = true;
  };

  static void report_sum(RopeRows& rows, const Widths& w, std::int64_t t, Sums& sums) {
    sum_bound(rows.arithmetic(), sums.first_sum, sums.first_magnitude, w.heads, sums.first_bound);
    sum_bound(rows.arithmetic(), sums.second_sum, sums.second_magnitude, w.heads, sums.second_bound);
    rows.prove_sum(kPosEmb, t, sums.first_sum, sums.first_magnitude, sums.whole);
    rows.prove_sum(kPosEmb, t, sums.second_sum, sums.second_magnitude, sums.whole);
    rows.rotate(true, sums.first_sum, sums.second_sum, &sums.first_bound, &sums.second_bound);
    rows.report(kPosEmb, t, 0, true);
  }
};

}  // namespace

std::unique_ptr<const Operation> make_mla_rope_kv_split_fwd() { return std::make_unique<KvSplitFwd>(); }
std::unique_ptr<const Operation> make_mla_rope_kv_split_bwd() { return std::make_unique<KvSplitBwd>(); }

}  // namespace tileproof
