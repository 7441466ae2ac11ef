#include "search/agreement.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "execute/device.h"
#include "generate/generator.h"
#include "memory/recipes.h"

namespace tileproof {

namespace {

constexpr unsigned kLongestSeconds = 300;

struct Bits {
  std::uint64_t outputs = 0;
  std::uint64_t different = 0;
};

const Subject& twin_of(const Subject& on_cuda) {
  const std::string name = "cpu" + on_cuda.name.substr(on_cuda.name.find('/'));
  const Subject* const twin = find_subject(name);
  if (twin == nullptr) {
    throw InputError("subject '" + on_cuda.name + "' has no counterpart '" + name + "'");
  }
  return *twin;
}

// Sign and payload of a NaN that arithmetic made are nobody's promise.
bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.bytes == b.bytes) {
    return true;
  }
  const std::size_t size = size_of(a.shape.dtype);
  for (std::int64_t i = 0; i < a.shape.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) != 0 &&
        !(std::isnan(a.at(i)) && std::isnan(b.at(i)))) {
      return false;
    }
  }
  return true;
}

void compare_case(Executor& cpu, Executor& cuda, const Subject& subject, const Subject& twin, const Case& c,
                  Bits& bits) {
  HostTensors inputs;
  make_inputs(c.problem, inputs);
  const Memory memory;
  for (const Tiling& tiling : c.tilings) {
    RunResult a;
    RunResult b;
    const RunOrder on_cpu{&twin, &c.problem, &tiling, &memory, &inputs, true, &a};
    const RunOrder on_cuda{&subject, &c.problem, &tiling, &memory, &inputs, true, &b};
    cpu.execute({&on_cpu, 1});
    cuda.begin();
    cuda.execute({&on_cuda, 1});
    for (std::size_t tensor = 0; tensor < a.outputs.size(); ++tensor) {
      if (a.outputs[tensor].bytes.empty()) {
        continue;
      }
      ++bits.outputs;
      bits.different += b.outputs.size() == a.outputs.size() && same_bits(a.outputs[tensor], b.outputs[tensor]) ? 0 : 1;
    }
  }
}

// What `find` counts, in a process of its own: this one does not initialise CUDA. Counts: plain data.
template <typename Counts, typename Find>
Counts count_in_child(const Subject& subject, Find find) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw EnvironmentError("cannot open a pipe to a process that compares devices");
  }
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) {
    throw EnvironmentError("cannot start a process that compares devices");
  }
  if (pid == 0) {
    close(ends[0]);
    alarm(kLongestSeconds);  // nobody watches over launches here
    Counts counts;
    try {
      find(counts);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tileproof: comparing devices on %s failed: %s\n", subject.name.c_str(), error.what());
      _exit(3);
    }
    _exit(write(ends[1], &counts, sizeof counts) == static_cast<ssize_t>(sizeof counts) ? 0 : 3);
  }
  close(ends[1]);
  Counts counts;
  const bool told = read(ends[0], &counts, sizeof counts) == static_cast<ssize_t>(sizeof counts);
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!told || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw EnvironmentError("the process that compares devices on " + subject.name + " did not end well");
  }
  return counts;
}

Bits compare_bits(const Subject& subject, const CheckOptions& options) {
  return count_in_child<Bits>(subject, [&](Bits& bits) {
    const auto cpu = make_executor("cpu");
    const auto cuda = make_executor("cuda");
    for (std::uint64_t unit = 0; unit < options.cases.value_or(0); ++unit) {
      compare_case(*cpu, *cuda, subject, twin_of(subject), generate_case(subject, options.seed, unit), bits);
    }
  });
}

struct Showing {
  std::uint64_t launches = 0;
  std::uint64_t shown = 0;
};

// The case under each of its tilings, `again` times after one launch of the clean kernel, which says what is right.
// Sparse cases are left out: there a stray access would cost this process.
void launch_again(Executor& cuda, const Subject& subject, const Case& c, std::size_t again, Showing& showing) {
  if (c.problem.value("sparse").number != 0) {
    return;
  }
  const Subject& clean = *clean_subject(subject.operation->name(), "cuda");
  HostTensors inputs;
  make_inputs(c.problem, inputs);
  const Memory memory;
  for (const Tiling& tiling : c.tilings) {
    std::vector<RunResult> results(again + 1);
    std::vector<RunOrder> orders;
    for (RunResult& result : results) {
      orders.push_back({orders.empty() ? &clean : &subject, &c.problem, &tiling, &memory, &inputs, false, &result});
    }
    cuda.begin();
    cuda.execute(orders);
    for (std::size_t i = 1; i < results.size(); ++i) {
      ++showing.launches;
      showing.shown += results[i].digests == results[0].digests && results[i].damage.empty() &&
                               results[i].changes.empty() && results[i].status == results[0].status
                           ? 0
                           : 1;
    }
  }
}

std::set<std::string> cases_found(const SubjectReport& cpu, const SubjectReport& cuda) {
  std::set<std::string> cases;
  for (const SubjectReport* report : {&cpu, &cuda}) {
    for (const Finding& finding : report->findings) {
      cases.insert(finding.case_text);
    }
  }
  return cases;
}

// The cases of findings are the smallest that show the fault, in which fewest threads can race: all others too.
Showing count_showing(const Subject& subject, const CheckOptions& options, const std::set<std::string>& found) {
  constexpr std::size_t kAgain = 25;
  constexpr std::size_t kAgainFound = 1000;
  return count_in_child<Showing>(subject, [&](Showing& showing) {
    const auto cuda = make_executor("cuda");
    for (const std::string& line : found) {
      launch_again(*cuda, subject, parse_case(line), kAgainFound, showing);
    }
    for (std::uint64_t unit = 0; unit < options.cases.value_or(0); ++unit) {
      launch_again(*cuda, subject, generate_case(subject, options.seed, unit), kAgain, showing);
    }
  });
}

bool hangs(const SubjectReport& report) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [](const Finding& finding) { return finding.signature.find("/timeout") != std::string::npos; });
}

bool shown_by_cpu(const Subject& subject) {
  const std::string_view expected = subject.raw->expected == nullptr ? "" : subject.raw->expected;
  const std::string first(expected.substr(0, expected.find(',')));
  if (first.empty()) {
    return false;
  }
  const std::vector<const Property*> properties = matching_properties({first});
  return first == "schedule_invariance" || (!properties.empty() && properties.front()->sanitizes());
}

void compare_verdicts(const CheckReport& cpu, const CheckReport& cuda, std::size_t subject, Agreement& agreement) {
  agreement.same_counts = true;
  for (std::size_t i = 0; i < cuda.properties.size(); ++i) {
    const Tally& a = cpu.subjects[subject].tallies[i];
    const Tally& b = cuda.subjects[subject].tallies[i];
    const std::string name(cuda.properties[i]->name());
    if (a.failed > 0 || b.failed > 0) {
      (a.failed == 0   ? agreement.only_on_cuda
       : b.failed == 0 ? agreement.only_on_cpu
                       : agreement.found_on_both)
          .push_back(name);
    }
    // The sanitizing build is the cpu's alone.
    agreement.same_counts =
        agreement.same_counts &&
        (cuda.properties[i]->sanitizes() ||
         (a.failed == b.failed && a.held == b.held && a.refused == b.refused && a.not_applicable == b.not_applicable));
  }
}

}  // namespace

std::vector<Agreement> find_agreement(const CheckOptions& options) {
  CheckOptions on_cpu = options;
  on_cpu.subjects.clear();
  on_cpu.jobs = 0;
  for (const Subject* subject : options.subjects) {
    on_cpu.subjects.push_back(&twin_of(*subject));
  }
  const CheckReport cpu = run_check(on_cpu);
  const CheckReport cuda = run_check(options);
  std::vector<Agreement> result;
  for (std::size_t i = 0; i < options.subjects.size(); ++i) {
    const Subject& subject = *options.subjects[i];
    Agreement& agreement = result.emplace_back();
    agreement.subject = subject.name.substr(subject.name.find('/') + 1);
    agreement.fault = subject.fault;
    agreement.shown_by_cpu = shown_by_cpu(subject);
    agreement.cases = cuda.subjects[i].cases;
    compare_verdicts(cpu, cuda, i, agreement);
    if (!subject.fault) {
      const Bits bits = compare_bits(subject, options);
      agreement.outputs = bits.outputs;
      agreement.different = bits.different;
    } else if (!agreement.same_counts && !hangs(cuda.subjects[i])) {
      const Showing showing = count_showing(subject, options, cases_found(cpu.subjects[i], cuda.subjects[i]));
      agreement.launches = showing.launches;
      agreement.shown = showing.shown;
    }
  }
  return result;
}

}  // namespace tileproof
