// Conditions over a case in the field's words: `head_num % block_h != 0 and head_num > block_h`.
//
//   condition   always | term { and term }
//   term        sum COMPARISON sum | [not] sum          COMPARISON: == != < <= > >=
//   sum         product { (+ | -) product }
//   product     factor { (* | % | mod) factor }
//   factor      number | number ^ number | NAME | (sum) | min(sum, sum) | max(sum, sum) | power_of_two(sum)
//   NAME        what the operation declares (Names); a choice is compared with one of its words: layout == thd
//
// A term holds only where everything that it names is there: `seq > 1` does not hold under layout=thd, nor
// `value.head_stride > 8` where there is no such tensor. A case with several tilings fulfils a condition when one of
// its tilings does.
#ifndef TILEPROOF_SEARCH_CONDITION_H
#define TILEPROOF_SEARCH_CONDITION_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tileproof/operation.h"

namespace tileproof {

// What a condition may name, derived from the operation's declaration alone:
//   head_num, inverse, layout ...       a parameter; of a list min(seqlens), max(), sum(), count()
//   cp_rank, cp_size                    a ratio: its two numbers
//   data, data.number                   a tagged value: its tag and the number behind it
//   token, max_seq ...                  Operation::quantities()
//   block_h, num_warps                  the tiling; threads, blocks: its orders
//   q.head_stride, q.extent             where a tensor lies, in elements (memory/layout.h)
//   size_of(dtype)                      bytes of an element of the data
class Names {
 public:
  explicit Names(const Operation& operation);  // the operation outlives it

  struct Name {
    std::string text;
    std::vector<std::string> words;  // of a choice; its value is an index into them
  };
  // What a site (a problem under one tiling) holds: parallel to all(); nullopt where it is not there.
  using Facts = std::vector<std::optional<std::int64_t>>;

  const Operation& operation() const { return operation_; }
  const std::vector<Name>& all() const { return names_; }
  std::optional<std::size_t> find(std::string_view text) const;
  Facts facts(const Problem& problem, const Tiling& tiling) const;

 private:
  void add(std::string text, std::vector<std::string> words);
  void add_parameter(const Parameter& parameter);
  void add_tiling();
  void add_tensors();

  const Operation& operation_;
  std::vector<Name> names_;
};

struct Expression {
  enum class Kind { number, name, add, subtract, multiply, modulo, min, max, power_of_two };
  Kind kind = Kind::number;
  std::int64_t number = 0;  // of a number; index into Names::all() of a name
  std::vector<Expression> operands;

  static Expression constant(std::int64_t value) { return {Kind::number, value, {}}; }
  static Expression named(std::size_t name) { return {Kind::name, static_cast<std::int64_t>(name), {}}; }
  static Expression of(Kind kind, Expression a, Expression b) { return {kind, 0, {std::move(a), std::move(b)}}; }
  // nullopt where a name is not there, a divisor is not positive, or the value does not fit.
  std::optional<std::int64_t> value(const Names::Facts& facts) const;
  bool operator==(const Expression&) const = default;
};

enum class Comparison { equal, unequal, less, at_most, greater, at_least };

struct Term {
  Expression left;
  Comparison comparison = Comparison::unequal;
  Expression right;  // the constant 0 of a term without a comparison
  bool holds(const Names::Facts& facts) const;
  bool operator==(const Term&) const = default;
};

bool compare(std::int64_t left, Comparison comparison, std::int64_t right);

struct Condition {
  std::vector<Term> terms;  // all must hold; none: always
  bool holds(const Names::Facts& facts) const;
  bool operator==(const Condition&) const = default;
};

bool holds(const Condition& condition, const Names& names, const Case& c);

// parse_condition(names, text(names, c)) == c.
std::string text(const Names& names, const Expression& expression);
std::string text(const Names& names, const Term& term);
std::string text(const Names& names, const Condition& condition);

// When it does not hold, where all that it names is there: `head_num mod block_h == 0 or head_num <= block_h`. It has
// at least one term.
std::string opposite_text(const Names& names, const Condition& condition);

// Throws InputError naming the column, what stands there and what was expected.
Condition parse_condition(const Names& names, std::string_view text);

}  // namespace tileproof

#endif
