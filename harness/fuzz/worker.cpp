#include "fuzz/worker.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "execute/device.h"
#include "generate/generator.h"

namespace tileproof {

namespace {

// Cases that a GPU has in flight together.
constexpr std::size_t kBatch = 128;
// Counts of what is known are recorded this often; what is new at once.
constexpr std::int64_t kRecordEvery = 2000;  // ms

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0;
  for (const char c : text) {
    hash = mix64(hash + static_cast<unsigned char>(c) + 0x9e3779b97f4a7c15ULL);
  }
  return hash;
}

bool judged_by_any(const std::vector<Judged>& judged) {
  return std::any_of(judged.begin(), judged.end(),
                     [](const Judged& one) { return one.verdict == Verdict::held || one.verdict == Verdict::failed; });
}

}  // namespace

std::string head_parameter(const Operation& operation) {
  for (const TensorSpec& spec : operation.tensors()) {
    for (const Axis& axis : spec.axes) {
      if (axis.kind == AxisKind::head && axis.terms.size() == 1 &&
          operation.parameter_index(axis.terms.front()) != std::string::npos) {
        return axis.terms.front();
      }
    }
  }
  return {};
}

CampaignWorker::CampaignWorker(const std::string& directory)
    : directory_(directory),
      settings_(read_settings(directory)),
      subjects_(subjects_of(settings_)),
      properties_(properties_of(settings_)),
      on_gpu_(std::string_view(subjects_.front()->raw->device) == "cuda"),
      bytes_(subjects_, settings_.seed),
      cells_(subjects_),
      board_(directory, cells_.size()),
      flight_(directory),
      store_(directory, Database::Mode::create),
      recorded_at_(milliseconds_now()) {
  for (const Subject* subject : subjects_) {
    head_keys_.push_back(head_parameter(*subject->operation));
  }
}

CampaignWorker::~CampaignWorker() = default;

void TracedLauncher::launch(const Subject& subject, const Case& c) {
  if (subject.traced == nullptr) {
    return;
  }
  if (!judge_) {
    judge_ = std::make_unique<BatchJudge>(make_executor(subject.raw->device), launching_);
  }
  Subject traced = subject;
  traced.raw = subject.traced;
  Case base = c;
  base.tilings.resize(1, base.tilings.front());
  judge_->judge(traced, {&base, 1}, false);
}

void CampaignWorker::launch_once(const SubjectCase& one) {
  flight_.take_off({bytes_.encode(one)});
  launcher_.launch(*subjects_[one.subject], one.the_case);
  flight_.land();
}

void CampaignWorker::judge(SubjectCase one) {
  if (!judge_) {
    judge_ = std::make_unique<BatchJudge>(make_executor(subjects_.front()->raw->device), properties_);
  }
  waiting_.push_back(std::move(one));
  if (!on_gpu_ || waiting_.size() >= kBatch) {
    judge_waiting();
  }
  if (milliseconds_now() - recorded_at_ > kRecordEvery) {
    record_counts();
  }
}

void CampaignWorker::flush() {
  judge_waiting();
  record_counts();
}

void CampaignWorker::judge_waiting() {
  if (waiting_.empty()) {
    return;
  }
  std::vector<std::string> inputs;
  std::vector<std::vector<SubjectCase>> by_subject(subjects_.size());
  for (SubjectCase& one : waiting_) {
    inputs.push_back(bytes_.encode(one));
    by_subject[one.subject].push_back(std::move(one));
  }
  waiting_.clear();
  flight_.take_off(inputs);
  for (std::size_t subject = 0; subject < subjects_.size(); ++subject) {
    if (!by_subject[subject].empty()) {
      // The share of the sanitizing build is drawn from the case, so that it is the same in every process.
      const bool sanitize =
          !on_gpu_ && settings_.sanitize_every > 0 && hash_of(inputs.front()) % settings_.sanitize_every == 0;
      judge_of(subject, by_subject[subject], sanitize);
    }
  }
  flight_.land();
}

void CampaignWorker::judge_of(std::size_t subject, const std::vector<SubjectCase>& cases, bool sanitize) {
  std::vector<Case> plain;
  for (const SubjectCase& one : cases) {
    plain.push_back(one.the_case);
  }
  const std::uint64_t launches = judge_->launches();
  try {
    std::vector<std::vector<Judged>> judged = judge_->judge(*subjects_[subject], plain, sanitize);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases.size() > 1) {
        judge_->judge_alone(*subjects_[subject], plain[i], judged[i], sanitize);
      }
      count(cases[i], judged[i]);
    }
  } catch (const HarnessError& error) {
    note_harness_error(error.what());
  }
  board_.launches() += judge_->launches() - launches;
}

void CampaignWorker::note_harness_error(const std::string& what) const {
  std::ofstream(directory_ + "/harness_errors.txt", std::ios::app) << what << '\n';
}

void CampaignWorker::count(const SubjectCase& one, const std::vector<Judged>& judged) {
  for (std::size_t property = 0; property < judged.size(); ++property) {
    if (judged[property].failure) {
      record(one, property, judged[property]);
    }
    note_fields(one, property, judged[property]);
  }
  if (!judged_by_any(judged)) {
    ++board_.refused();
    return;
  }
  ++board_.cases();
  const std::int64_t now = milliseconds_now();
  cells_.covered(one.subject, one.the_case, covered_);
  for (const std::uint32_t cell : covered_) {
    std::int64_t never = 0;
    if (board_.first_seen(cell).compare_exchange_strong(never, now)) {
      board_.newest() = now;
    }
  }
}

void CampaignWorker::record(const SubjectCase& one, std::size_t property, const Judged& judged) {
  const std::string sign = signature(properties_[property]->name(), *judged.failure);
  const std::int64_t elements = elements_of(one.the_case.problem);
  const auto [known, fresh] = told_.try_emplace({one.subject, sign}, Told{elements, {}});
  Told& told = known->second;
  ++told.waiting.count;
  if (!fresh && elements >= told.elements) {
    return;
  }
  Finding finding;
  finding.subject = subjects_[one.subject]->name;
  finding.property = properties_[property]->name();
  finding.signature = sign;
  finding.case_text = text(one.the_case);
  finding.message = judged.failure->message;
  finding.evidence = judged.failure->evidence;
  finding.elements = elements;
  finding.count = told.waiting.count;
  store_.record(finding, milliseconds_now());
  told.elements = elements;
  told.waiting = std::move(finding);
  told.waiting.count = 0;
}

// A failure counts for the tiling whose run is wrong; where that is not known, for every tiling of the case.
void CampaignWorker::note_fields(const SubjectCase& one, std::size_t property, const Judged& judged) {
  const bool failed = judged.verdict == Verdict::failed;
  if (head_keys_[one.subject].empty() || (!failed && judged.verdict != Verdict::held)) {
    return;
  }
  const std::int64_t heads = one.the_case.problem.integer(head_keys_[one.subject]);
  for (const Tiling& tiling : one.the_case.tilings) {
    if (!failed || !judged.tiling || judged.tiling->values.front() == tiling.values.front()) {
      auto& [passed, failures] = fields_[{one.subject, property, heads, tiling.values.front()}];
      ++(failed ? failures : passed);
    }
  }
}

void CampaignWorker::record_counts() {
  recorded_at_ = milliseconds_now();
  for (auto& [key, told] : told_) {
    if (told.waiting.count > 0 && !told.waiting.signature.empty()) {
      store_.record(told.waiting, recorded_at_);
      told.waiting.count = 0;
    }
  }
  std::vector<TriedPair> pairs;
  for (const auto& [key, counts] : fields_) {
    const auto& [subject, property, across, down] = key;
    pairs.push_back({subjects_[subject]->name, std::string(properties_[property]->name()), head_keys_[subject],
                     subjects_[subject]->operation->tiling_parameters().front().key, across, down, counts.first,
                     counts.second});
  }
  if (!pairs.empty()) {
    store_.add(pairs);
  }
  fields_.clear();
}

}  // namespace tileproof
