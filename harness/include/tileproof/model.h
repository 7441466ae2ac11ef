// tileproof/model.h: the vocabulary of a case.
//
// A problem is all that decides the right answer, a tiling all that must not, and a case is one problem with the
// tilings that are held against each other. Parameters are declared once by the operation (tileproof/operation.h);
// the values here are positions in that declaration, so equality and copying are cheap and nothing is looked up
// by text while runs execute.
#ifndef TILEPROOF_MODEL_H
#define TILEPROOF_MODEL_H

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tileproof {

class Operation;
class Problem;

// Bad input from a person: a bad line, flag or file. Ends in exit status 2 with its one-line message.
class InputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Dtype { f32, f16, bf16, i32 };
std::size_t size_of(Dtype dtype);
std::string_view name_of(Dtype dtype);

// How a parameter's value is written: 12 · 0|1 · thd · 27,27,45 · 1/2 (number/second) · exact:7 (choice:second).
enum class ParameterKind { integer, flag, choice, list, ratio, tagged };

struct Value {
  std::int64_t number = 0;          // integer, flag, index of the choice or tag, numerator of a ratio
  std::int64_t second = 0;          // denominator of a ratio, number behind a tag
  std::vector<std::int64_t> items;  // list
  bool operator==(const Value&) const = default;
};

struct Parameter {
  std::string key;
  ParameterKind kind = ParameterKind::integer;
  std::string meaning;   // one line for `list`
  std::int64_t min = 0;  // of the integer, each item, or the denominator of a ratio
  std::int64_t max = 0;
  std::int64_t multiple_of = 1;
  Value fallback;             // value where the line does not name the key
  bool required = false;      // the line must name it (where it applies)
  bool always_shown = false;  // the canonical line names it even at its fallback
  bool contents = false;      // says only what tensors hold: no shape, place or mode depends on it
  // Under which keys a model's config.json gives the value, the first that is there; whether tensor parallel ranks
  // share it equally; and how such a file spells the choices, parallel to them.
  std::vector<std::string> config_keys;
  bool tensor_parallel = false;
  std::vector<std::string> config_words;
  std::vector<std::string> choices;  // of a choice or the tags of a tagged value
  std::size_t max_items = 64;
  // Hints for the generator: values worth trying often, and where uninteresting growth begins (0: at max).
  std::vector<std::int64_t> favourites;
  std::int64_t typical_max = 0;
  std::function<bool(const Problem&)> applies;  // empty: always; may look only at parameters declared before it
};

// All that decides the right answer. Value semantics; the operation outlives every problem (registry lifetime).
class Problem {
 public:
  explicit Problem(const Operation& operation);  // every parameter at its fallback

  const Operation& operation() const { return *operation_; }
  // Throws std::logic_error for a key the operation does not declare: that is a fault of the program.
  std::int64_t integer(std::string_view key) const { return value(key).number; }
  bool flag(std::string_view key) const { return value(key).number != 0; }
  const std::vector<std::int64_t>& list(std::string_view key) const { return value(key).items; }
  const Value& value(std::string_view key) const;
  Value& value(std::string_view key);
  const std::string& choice(std::string_view key) const;
  bool has(std::string_view key) const;
  bool applies(const Parameter& parameter) const { return !parameter.applies || parameter.applies(*this); }
  Problem& set(std::string_view key, std::int64_t number);
  Problem& set(std::string_view key, Value value);
  // Sets every parameter that does not apply back to its fallback, so that equal meanings compare equal.
  void normalise();

  // The same values under another operation: keys both declare are carried over, the rest are fallbacks.
  Problem under(const Operation& other) const;

  bool operator==(const Problem& other) const { return operation_ == other.operation_ && values_ == other.values_; }

 private:
  const Operation* operation_;
  std::vector<Value> values_;  // parallel to operation().parameters()
};

enum class Order { forward, reverse, shuffled };

// All that must not show in the result. `values` is parallel to operation().tiling_parameters().
struct Tiling {
  std::vector<std::int64_t> values;
  Order threads = Order::forward;  // CPU executor only
  Order blocks = Order::forward;
  std::uint64_t order_seed = 0;  // for Order::shuffled
  bool operator==(const Tiling&) const = default;
};

Tiling default_tiling(const Operation& operation);
std::int64_t tiling_value(const Operation& operation, const Tiling& tiling, std::string_view key);
void set_tiling_value(const Operation& operation, Tiling& tiling, std::string_view key, std::int64_t value);

struct Case {
  Problem problem;
  std::vector<Tiling> tilings;  // at least one
  bool operator==(const Case&) const = default;
};

// The canonical line. parse(text(c)) == c for every valid case, and text(parse(line)) == line for a canonical line.
std::string text(const Problem& problem);
std::string text(const Operation& operation, const Tiling& tiling);
std::string text(const Case& c);

// The value of one parameter as the line spells it. Throws InputError naming the key, the value and what was expected.
Value parse_value_of(const Parameter& parameter, std::string_view word);

// Throws InputError naming the key, the value, what was expected and the column.
Case parse_case(std::string_view line);

}  // namespace tileproof

#endif
