#include "search/condition.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace tileproof {

namespace {

constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
constexpr std::int64_t kShortPower = 65536;  // from here on a power of two is written as one

using Kind = Expression::Kind;

bool is_choice(const Names& names, const Expression& expression) {
  return expression.kind == Kind::name && !names.all()[static_cast<std::size_t>(expression.number)].words.empty();
}

std::string number_text(std::int64_t number) {
  if (number >= kShortPower && (number & (number - 1)) == 0) {
    return fmt::format("2^{}", __builtin_ctzll(static_cast<unsigned long long>(number)));
  }
  return std::to_string(number);
}

// How tightly its operator binds.
int rank_of(Kind kind) {
  return kind == Kind::add || kind == Kind::subtract ? 0 : kind == Kind::multiply || kind == Kind::modulo ? 1 : 2;
}

}  // namespace

std::optional<std::int64_t> Expression::value(const Names::Facts& facts) const {
  if (kind == Kind::number) {
    return number;
  }
  if (kind == Kind::name) {
    return facts[static_cast<std::size_t>(number)];
  }
  const auto a = operands[0].value(facts);
  const auto b = operands.size() > 1 ? operands[1].value(facts) : a;
  if (!a || !b) {
    return std::nullopt;
  }
  std::int64_t result = 0;
  bool overflow = false;
  switch (kind) {
    case Kind::add: overflow = __builtin_add_overflow(*a, *b, &result); break;
    case Kind::subtract: overflow = __builtin_sub_overflow(*a, *b, &result); break;
    case Kind::multiply: overflow = __builtin_mul_overflow(*a, *b, &result); break;
    case Kind::modulo:
      overflow = *b <= 0;
      result = overflow ? 0 : *a % *b;
      break;
    case Kind::min: result = std::min(*a, *b); break;
    case Kind::max: result = std::max(*a, *b); break;
    case Kind::power_of_two: result = *a > 0 && (*a & (*a - 1)) == 0 ? 1 : 0; break;
    case Kind::number:
    case Kind::name: break;
  }
  return overflow ? std::nullopt : std::optional(result);
}

bool compare(std::int64_t left, Comparison comparison, std::int64_t right) {
  switch (comparison) {
    case Comparison::equal: return left == right;
    case Comparison::unequal: return left != right;
    case Comparison::less: return left < right;
    case Comparison::at_most: return left <= right;
    case Comparison::greater: return left > right;
    case Comparison::at_least: return left >= right;
  }
  return false;
}

bool Term::holds(const Names::Facts& facts) const {
  const auto a = left.value(facts);
  const auto b = right.value(facts);
  return a && b && compare(*a, comparison, *b);
}

bool Condition::holds(const Names::Facts& facts) const {
  return std::all_of(terms.begin(), terms.end(), [&](const Term& term) { return term.holds(facts); });
}

bool holds(const Condition& condition, const Names& names, const Case& c) {
  return std::any_of(c.tilings.begin(), c.tilings.end(),
                     [&](const Tiling& tiling) { return condition.holds(names.facts(c.problem, tiling)); });
}

std::string text(const Names& names, const Expression& expression) {
  const auto operand = [&](std::size_t index) {
    const Expression& inner = expression.operands[index];
    const bool bare = rank_of(inner.kind) > rank_of(expression.kind) ||
                      (index == 0 && rank_of(inner.kind) == rank_of(expression.kind));
    return bare ? text(names, inner) : fmt::format("({})", text(names, inner));
  };
  const auto whole = [&](std::size_t index) { return text(names, expression.operands[index]); };
  switch (expression.kind) {
    case Kind::number: return number_text(expression.number);
    case Kind::name: return names.all()[static_cast<std::size_t>(expression.number)].text;
    case Kind::add: return fmt::format("{} + {}", operand(0), operand(1));
    case Kind::subtract: return fmt::format("{} - {}", operand(0), operand(1));
    case Kind::multiply: return fmt::format("{} * {}", operand(0), operand(1));
    case Kind::modulo: return fmt::format("{} mod {}", operand(0), operand(1));
    case Kind::min: return fmt::format("min({}, {})", whole(0), whole(1));
    case Kind::max: return fmt::format("max({}, {})", whole(0), whole(1));
    case Kind::power_of_two: return fmt::format("power_of_two({})", whole(0));
  }
  return {};
}

std::string text(const Names& names, const Term& term) {
  const bool of_zero = term.right == Expression::constant(0);
  if (term.left.kind == Kind::power_of_two && of_zero && term.comparison == Comparison::unequal) {
    return text(names, term.left);
  }
  if (term.left.kind == Kind::power_of_two && of_zero && term.comparison == Comparison::equal) {
    return "not " + text(names, term.left);
  }
  const bool word = is_choice(names, term.left) && term.right.kind == Kind::number;
  const std::string right =
      word ? names.all()[static_cast<std::size_t>(term.left.number)].words[static_cast<std::size_t>(term.right.number)]
           : text(names, term.right);
  return fmt::format("{} {} {}", text(names, term.left), kComparisons[static_cast<int>(term.comparison)], right);
}

std::string text(const Names& names, const Condition& condition) {
  if (condition.terms.empty()) {
    return "always";
  }
  std::vector<std::string> terms;
  for (const Term& term : condition.terms) {
    terms.push_back(text(names, term));
  }
  return fmt::format("{}", fmt::join(terms, " and "));
}

std::string opposite_text(const Names& names, const Condition& condition) {
  constexpr Comparison kOpposites[] = {Comparison::unequal, Comparison::equal,   Comparison::at_least,
                                       Comparison::greater, Comparison::at_most, Comparison::less};
  std::vector<std::string> terms;
  for (Term term : condition.terms) {
    term.comparison = kOpposites[static_cast<int>(term.comparison)];
    terms.push_back(text(names, term));
  }
  return fmt::format("{}", fmt::join(terms, " or "));
}

namespace {

class Parser {
 public:
  Parser(const Names& names, std::string_view text) : names_(names), text_(text) { advance(); }

  Condition condition() {
    Condition result;
    if (token_ == "always") {
      advance();
    } else {
      result.terms.push_back(term());
      while (token_ == "and") {
        advance();
        result.terms.push_back(term());
      }
    }
    if (!token_.empty()) {
      refuse("'and' or the end");
    }
    return result;
  }

 private:
  Term term() {
    Term result;
    const bool negated = token_ == "not";
    if (negated) {
      advance();
    }
    result.left = sum();
    const auto* const found = std::find(std::begin(kComparisons), std::end(kComparisons), token_);
    if (found == std::end(kComparisons) || negated) {
      if (is_choice(names_, result.left)) {
        refuse(fmt::format("a comparison, such as == {}", words_of(result.left).front()));
      }
      result.comparison = negated ? Comparison::equal : Comparison::unequal;
      return result;
    }
    result.comparison = static_cast<Comparison>(found - std::begin(kComparisons));
    advance();
    result.right = is_choice(names_, result.left) ? word(result) : sum();
    return result;
  }

  const std::vector<std::string>& words_of(const Expression& choice) const {
    return names_.all()[static_cast<std::size_t>(choice.number)].words;
  }

  // One of the words of the choice on the left.
  Expression word(const Term& term) {
    const auto& words = words_of(term.left);
    const auto found = std::find(words.begin(), words.end(), token_);
    if (found == words.end() || (term.comparison != Comparison::equal && term.comparison != Comparison::unequal)) {
      refuse(fmt::format("{} == or != one of {}", text(names_, term.left), fmt::join(words, ", ")));
    }
    advance();
    return Expression::constant(found - words.begin());
  }

  Expression sum() {
    Expression result = product();
    while (token_ == "+" || token_ == "-") {
      const Kind kind = token_ == "+" ? Kind::add : Kind::subtract;
      advance();
      result = Expression::of(kind, std::move(result), product());
    }
    return result;
  }

  Expression product() {
    Expression result = factor();
    while (token_ == "*" || token_ == "%" || token_ == "mod") {
      const Kind kind = token_ == "*" ? Kind::multiply : Kind::modulo;
      advance();
      result = Expression::of(kind, std::move(result), factor());
    }
    return result;
  }

  Expression factor() {
    if (++factors_ > 100) {
      refuse("a condition of at most 100 names and numbers");
    }
    if (!token_.empty() && token_[0] >= '0' && token_[0] <= '9') {
      return number();
    }
    if (token_ == "(") {
      advance();
      Expression inner = sum();
      expect(")");
      return inner;
    }
    if (after() == '(') {
      return call();
    }
    return name(token_, 1);
  }

  Expression number() {
    std::int64_t value = whole();
    if (token_ == "^") {
      advance();
      const std::int64_t exponent = whole();
      std::int64_t power = 1;
      for (std::int64_t i = 0; i < exponent; ++i) {
        if (__builtin_mul_overflow(power, value, &power) || i > 64) {
          refuse("a number below 2^63 before it");
        }
      }
      value = power;
    }
    return Expression::constant(value);
  }

  std::int64_t whole() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(token_.data(), token_.data() + token_.size(), value);
    if (token_.empty() || error != std::errc() || end != token_.data() + token_.size()) {
      refuse("a whole number below 2^63");
    }
    advance();
    return value;
  }

  // min(a, b), max(a, b), power_of_two(a), or a name that is written as a call: min(seqlens), size_of(dtype).
  Expression call() {
    const std::size_t close = text_.find(')', column_ - 1);
    const std::string_view all = text_.substr(column_ - 1, close == text_.npos ? close : close + 2 - column_);
    if (names_.find(all)) {
      return name(all, 4);
    }
    const bool two = token_ == "min" || token_ == "max";
    if (!two && token_ != "power_of_two") {
      refuse("min(a, b), max(a, b), power_of_two(a), or a list's min, max, sum or count");
    }
    Expression result;
    result.kind = token_ == "min" ? Kind::min : token_ == "max" ? Kind::max : Kind::power_of_two;
    advance();
    expect("(");
    result.operands.push_back(sum());
    if (two) {
      expect(",");
      result.operands.push_back(sum());
    }
    expect(")");
    return result;
  }

  // Reads `tokens` tokens, which spell `spelling`.
  Expression name(std::string_view spelling, int tokens) {
    const auto found = names_.find(spelling);
    if (!found) {
      std::vector<std::string> some;
      for (const Parameter& parameter : names_.operation().parameters()) {
        if (parameter.required && names_.find(parameter.key)) {
          some.push_back(parameter.key);
        }
      }
      for (const Parameter& parameter : names_.operation().tiling_parameters()) {
        some.push_back(parameter.key);
      }
      refuse(fmt::format("a number or what {} declares ({}, ...; tileproof list operations)", names_.operation().name(),
                         fmt::join(some, ", ")));
    }
    for (int i = 0; i < tokens; ++i) {
      advance();
    }
    return Expression::named(*found);
  }

  void expect(std::string_view wanted) {
    if (token_ != wanted) {
      refuse(fmt::format("'{}'", wanted));
    }
    advance();
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw InputError(fmt::format("condition, column {}: {} given, expected {}", column_,
                                 token_.empty() ? std::string("the end") : fmt::format("'{}'", token_), expected));
  }

  // The character behind the current token, blanks left out; 0 at the end.
  char after() const {
    const std::size_t at = text_.find_first_not_of(" \t", next_);
    return at == std::string_view::npos ? '\0' : text_[at];
  }

  void advance() {
    constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const std::size_t start = std::min(text_.find_first_not_of(" \t", next_), text_.size());
    column_ = start + 1;
    std::size_t end = start;
    if (start < text_.size()) {
      end = std::min(text_.find_first_not_of(kName, start), text_.size());
      if (end == start) {
        constexpr std::string_view kWithEquals = "=!<>";
        const bool two = kWithEquals.find(text_[start]) != kWithEquals.npos && text_.substr(start + 1, 1) == "=";
        end = start + (two ? 2 : 1);
      }
    }
    token_ = text_.substr(start, end - start);
    next_ = end;
  }

  const Names& names_;
  std::string_view text_;
  std::string_view token_;
  std::size_t next_ = 0;
  std::size_t column_ = 1;
  int factors_ = 0;
};

}  // namespace

Condition parse_condition(const Names& names, std::string_view text) { return Parser(names, text).condition(); }

}  // namespace tileproof
