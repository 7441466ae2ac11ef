#include "search/inference.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tileproof {

namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::size_t kMostExact = 4000;  // enough to choose from; a search that finds more has too few samples
constexpr std::size_t kBeam = 48;
constexpr std::size_t kTwins = 6;
constexpr std::int64_t kLimitOfBits = 65536;

std::size_t count(const Words& bits) {
  return std::accumulate(bits.begin(), bits.end(), std::size_t{0}, [](std::size_t sum, std::uint64_t word) {
    return sum + static_cast<std::size_t>(__builtin_popcountll(word));
  });
}

// A term and where it holds: bit s * padded cases + c is site s of case c.
struct Atom {
  Term term;
  int cost = 0;
  Words bits;
  std::vector<Term> twins;  // others that hold at the same sites
};

// The samples as bits. Cases are padded to whole words.
class Grid {
 public:
  explicit Grid(const std::vector<Sample>& samples)
      : samples_(samples), words_((samples.size() + 63) / 64), sites_(samples.front().sites.size()), failing_(words_) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      failing_[i / 64] |= samples[i].fails ? std::uint64_t{1} << i % 64 : 0;
    }
    passing_.resize(words_ * sites_);
    for (std::size_t s = 0; s < sites_; ++s) {
      for (std::size_t i = 0; i < samples.size(); ++i) {
        set(passing_, s, i, !samples[i].fails);
      }
    }
  }

  std::size_t sites() const { return sites_; }
  const std::vector<Sample>& samples() const { return samples_; }
  const Words& failing() const { return failing_; }
  const Words& passing_sites() const { return passing_; }
  Words all() const { return Words(words_ * sites_, ~std::uint64_t{0}); }

  void set(Words& bits, std::size_t site, std::size_t sample, bool value) const {
    bits[site * words_ + sample / 64] |= value ? std::uint64_t{1} << sample % 64 : 0;
  }

  // Cases of which some site fulfils it.
  Words cases(const Words& bits) const {
    Words result(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(words_));
    for (std::size_t i = words_; i < bits.size(); ++i) {
      result[i % words_] |= bits[i];
    }
    return result;
  }

  bool covers_failing(const Words& bits) const {
    for (std::size_t i = 0; i < words_; ++i) {
      std::uint64_t some = 0;
      for (std::size_t s = 0; s < sites_; ++s) {
        some |= bits[s * words_ + i];
      }
      if ((failing_[i] & ~some) != 0) {
        return false;
      }
    }
    return true;
  }

  template <typename Holds>
  Words where(Holds&& holds) const {
    Words bits(words_ * sites_);
    for (std::size_t s = 0; s < sites_; ++s) {
      for (std::size_t i = 0; i < samples_.size(); ++i) {
        set(bits, s, i, holds(s, i));
      }
    }
    return bits;
  }

  Separation separation(Condition condition, int cost, const Words& bits) const {
    Separation result;
    result.condition = std::move(condition);
    result.cost = cost;
    Words inside = cases(bits);
    if (samples_.size() % 64 != 0) {
      inside.back() &= (std::uint64_t{1} << samples_.size() % 64) - 1;
    }
    result.inside = count(inside);
    for (std::size_t i = 0; i < words_; ++i) {
      inside[i] &= failing_[i];
    }
    result.inside_failing = count(inside);
    result.outside = samples_.size() - result.inside;
    result.outside_failing = count(failing_) - result.inside_failing;
    result.exact = result.inside == result.inside_failing && result.outside_failing == 0;
    return result;
  }

 private:
  const std::vector<Sample>& samples_;
  std::size_t words_;
  std::size_t sites_;
  Words failing_;
  Words passing_;
};

// Constants that a person would write, and what one costs in a comparison.
int constant_cost(std::int64_t constant) {
  if (constant == 0 || constant == 1) {
    return 0;
  }
  return constant > 0 && (constant & (constant - 1)) == 0 ? 1 : 3;
}

class Atoms {
 public:
  Atoms(const Grid& grid, const Vocabulary& vocabulary) : grid_(grid) {
    for (const Feature& feature : vocabulary.features) {
      add(feature.term, feature.cost, grid.where([&](std::size_t site, std::size_t sample) {
        return feature.term.holds(grid.samples()[sample].sites[site]);
      }));
    }
    for (const Measure& measure : vocabulary.measures) {
      add_measure(measure);
    }
    std::stable_sort(atoms_.begin(), atoms_.end(), [](const Atom& a, const Atom& b) { return a.cost < b.cost; });
    drop_twins();
  }

  std::vector<Atom>& all() { return atoms_; }

 private:
  using Values = std::vector<std::vector<std::optional<std::int64_t>>>;  // by site and sample

  void add(Term term, int cost, Words bits) { atoms_.push_back({std::move(term), cost, std::move(bits), {}}); }

  void add_measure(const Measure& measure) {
    const auto& samples = grid_.samples();
    Values values(grid_.sites());
    std::set<std::int64_t> seen;
    for (std::size_t site = 0; site < grid_.sites(); ++site) {
      for (const Sample& sample : samples) {
        values[site].push_back(measure.expression.value(sample.sites[site]));
        if (values[site].back()) {
          seen.insert(*values[site].back());
        }
      }
    }
    if (seen.size() < 2) {
      return;
    }
    const auto compare_with = [&](Comparison comparison, std::int64_t constant, int more) {
      add({measure.expression, comparison, Expression::constant(constant)},
          measure.cost + constant_cost(constant) + more, grid_.where([&](std::size_t site, std::size_t sample) {
            const auto& value = values[site][sample];
            return value && compare(*value, comparison, constant);
          }));
    };
    for (const std::int64_t constant : cuts(seen, values)) {
      // What a number of bits limits goes wrong from the power of two on.
      const bool limit = constant >= kLimitOfBits && constant_cost(constant) == 1;
      compare_with(limit ? Comparison::at_least : Comparison::greater, constant, 0);
      compare_with(limit ? Comparison::less : Comparison::at_most, constant, 1);
    }
    for (const std::int64_t constant : {0, 1, 2}) {
      if (seen.contains(constant)) {
        compare_with(Comparison::equal, constant, 2);
        compare_with(Comparison::unequal, constant, 2);
      }
    }
  }

  // Where to cut: the ends of what fails, powers of two, and a few places in between. Each lies at or above some value
  // and below another.
  std::set<std::int64_t> cuts(const std::set<std::int64_t>& seen, const Values& values) const {
    std::set<std::int64_t> result{0, 1};
    for (int bit = 1; bit < 40; ++bit) {
      result.insert(std::int64_t{1} << bit);
    }
    std::optional<std::int64_t> least;
    std::optional<std::int64_t> most;
    for (std::size_t i = 0; i < grid_.samples().size(); ++i) {
      for (std::size_t site = 0; grid_.samples()[i].fails && site < values.size(); ++site) {
        if (const auto& value = values[site][i]) {
          least = std::min(least.value_or(*value), *value);
          most = std::max(most.value_or(*value), *value);
        }
      }
    }
    if (least) {
      result.insert(*least - 1);
      result.insert(*most);
    }
    std::size_t place = 0;
    for (const std::int64_t value : seen) {
      if (place++ % std::max<std::size_t>(1, seen.size() / 8) == 0) {
        result.insert(value);
      }
    }
    result.erase(result.begin(), result.lower_bound(*seen.begin()));
    result.erase(result.lower_bound(*seen.rbegin()), result.end());
    return result;
  }

  // Of terms that hold at the same sites the first, which is the cheapest, speaks for all.
  void drop_twins() {
    std::map<Words, std::size_t> first;
    std::vector<Atom> kept;
    for (Atom& atom : atoms_) {
      const auto [known, fresh] = first.try_emplace(atom.bits, kept.size());
      if (fresh) {
        kept.push_back(std::move(atom));
      } else if (kept[known->second].twins.size() < kTwins) {
        kept[known->second].twins.push_back(std::move(atom.term));
      }
    }
    atoms_ = std::move(kept);
  }

  const Grid& grid_;
  std::vector<Atom> atoms_;
};

using Chosen = std::vector<std::size_t>;  // indices of atoms, ascending

// All sets of `terms` atoms that hold on every failing case and at no site of a passing one. Every set must exclude
// the first site that is left, which says where to branch.
class ExactSearch {
 public:
  ExactSearch(const Grid& grid, const std::vector<Atom>& atoms) : grid_(grid), atoms_(atoms) {
    for (std::size_t i = 0; i < atoms.size(); ++i) {
      if (grid.covers_failing(atoms[i].bits)) {
        usable_.push_back(i);
      }
    }
  }

  std::vector<Chosen> run(std::size_t terms) {
    found_.clear();
    descend(grid_.all(), {}, terms);
    return {found_.begin(), found_.end()};
  }

 private:
  void descend(const Words& bits, const Chosen& chosen, std::size_t terms) {
    std::size_t word = 0;
    while (word < bits.size() && (bits[word] & grid_.passing_sites()[word]) == 0) {
      ++word;
    }
    if (word == bits.size()) {
      Chosen sorted = chosen;
      std::sort(sorted.begin(), sorted.end());
      found_.insert(std::move(sorted));
      return;
    }
    if (chosen.size() == terms) {
      return;
    }
    const std::uint64_t site = bits[word] & grid_.passing_sites()[word];
    const std::uint64_t lowest = site & (~site + 1);
    const bool last = chosen.size() + 1 == terms;
    for (const std::size_t index : usable_) {
      const Atom& atom = atoms_[index];
      if ((atom.bits[word] & lowest) != 0 || found_.size() >= kMostExact || (last && !excludes_all(bits, atom, word))) {
        continue;
      }
      Words narrowed(bits.size());
      std::transform(bits.begin(), bits.end(), atom.bits.begin(), narrowed.begin(), std::bit_and<>());
      if (grid_.covers_failing(narrowed)) {
        Chosen longer = chosen;
        longer.push_back(index);
        descend(narrowed, longer, terms);
      }
    }
  }

  bool excludes_all(const Words& bits, const Atom& atom, std::size_t from) const {
    for (std::size_t word = from; word < bits.size(); ++word) {
      if ((bits[word] & atom.bits[word] & grid_.passing_sites()[word]) != 0) {
        return false;
      }
    }
    return true;
  }

  const Grid& grid_;
  const std::vector<Atom>& atoms_;
  std::vector<std::size_t> usable_;
  std::set<Chosen> found_;
};

struct Partial {
  Chosen chosen;
  Words bits;
  double loss = 0;
  int cost = 0;
};

// Share of the failing cases that are missed, and of the others that are included; a further term must pay.
double loss_of(const Separation& s, std::size_t terms) {
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const std::uint64_t failing = s.inside_failing + s.outside_failing;
  const std::uint64_t passing = s.inside + s.outside - failing;
  return share(s.outside_failing, failing) + share(s.inside - s.inside_failing, passing) +
         0.005 * static_cast<double>(terms);
}

bool better(const Partial& a, const Partial& b) {
  return std::tie(a.loss, a.cost, a.chosen) < std::tie(b.loss, b.cost, b.chosen);
}

// The first kBeam, each once.
void keep_best(std::vector<Partial>& partials) {
  std::sort(partials.begin(), partials.end(), better);
  const auto same = [](const Partial& a, const Partial& b) { return a.chosen == b.chosen; };
  partials.erase(std::unique(partials.begin(), partials.end(), same), partials.end());
  partials.resize(std::min(partials.size(), kBeam));
}

std::vector<Partial> beam_search(const Grid& grid, const std::vector<Atom>& atoms) {
  std::vector<Partial> best;
  std::vector<Partial> level{{{}, grid.all(), 2, 0}};
  for (std::size_t terms = 1; terms <= kMostTerms; ++terms) {
    std::vector<Partial> next;
    for (const Partial& partial : level) {
      for (std::size_t i = 0; i < atoms.size(); ++i) {
        if (std::find(partial.chosen.begin(), partial.chosen.end(), i) != partial.chosen.end()) {
          continue;
        }
        Partial longer = partial;
        std::transform(longer.bits.begin(), longer.bits.end(), atoms[i].bits.begin(), longer.bits.begin(),
                       std::bit_and<>());
        longer.chosen.insert(std::upper_bound(longer.chosen.begin(), longer.chosen.end(), i), i);
        longer.cost += atoms[i].cost;
        longer.loss = loss_of(grid.separation({}, 0, longer.bits), terms);
        next.push_back(std::move(longer));
        if (next.size() > 8 * kBeam) {
          keep_best(next);
        }
      }
    }
    keep_best(next);
    best.insert(best.end(), next.begin(), next.end());
    level = std::move(next);
  }
  std::sort(best.begin(), best.end(), better);
  return best;
}

Separation separation_of(const Grid& grid, const std::vector<Atom>& atoms, const Chosen& chosen) {
  Words bits = grid.all();
  Condition condition;
  int cost = 0;
  for (const std::size_t index : chosen) {
    std::transform(bits.begin(), bits.end(), atoms[index].bits.begin(), bits.begin(), std::bit_and<>());
    condition.terms.push_back(atoms[index].term);
    cost += atoms[index].cost;
  }
  return grid.separation(std::move(condition), cost, bits);
}

// The same in other words, one term at a time.
void add_twins(const std::vector<Atom>& atoms, const Chosen& chosen, const Separation& original,
               std::vector<Separation>& result) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (const Term& twin : atoms[chosen[i]].twins) {
      Separation other = original;
      other.condition.terms[i] = twin;
      result.push_back(std::move(other));
    }
  }
}

}  // namespace

std::vector<Separation> separate(const Vocabulary& vocabulary, const std::vector<Sample>& samples, std::size_t most) {
  const Grid grid(samples);
  if (count(grid.failing()) == samples.size()) {
    return {grid.separation({}, 0, grid.all())};
  }
  Atoms atoms(grid, vocabulary);
  ExactSearch search(grid, atoms.all());
  std::vector<std::pair<Chosen, Separation>> found;
  for (std::size_t terms = 1; terms <= kMostTerms && found.empty(); ++terms) {
    for (Chosen& chosen : search.run(terms)) {
      found.emplace_back(chosen, separation_of(grid, atoms.all(), chosen));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.second.cost < b.second.cost; });
  if (found.empty()) {
    for (const Partial& partial : beam_search(grid, atoms.all())) {
      found.emplace_back(partial.chosen, separation_of(grid, atoms.all(), partial.chosen));
    }
  }
  std::vector<Separation> result;
  for (std::size_t i = 0; i < found.size() && result.size() < most; ++i) {
    result.push_back(found[i].second);
  }
  add_twins(atoms.all(), found.front().first, found.front().second, result);
  return result;
}

}  // namespace tileproof
