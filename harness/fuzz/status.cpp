#include "fuzz/status.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "memory/arena.h"

namespace tileproof {

namespace fs = std::filesystem;

namespace {

constexpr double kRateSeconds = 10;

std::uint64_t count_files(const std::string& directory) {
  std::error_code gone;
  std::uint64_t count = 0;
  for (fs::directory_iterator entry(directory, gone), end; entry != end; entry.increment(gone)) {
    ++count;
  }
  return count;
}

void sync_directory(const std::string& directory) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file >= 0) {
    syncfs(file);
    close(file);
  }
}

// "1 h 05 min", "12 min", "40 s".
std::string span_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  return whole >= 3600  ? fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60)
         : whole >= 120 ? fmt::format("{} min", whole / 60)
                        : fmt::format("{} s", whole);
}

void raise(std::atomic<std::uint64_t>& counter, std::uint64_t least) {
  counter = std::max<std::uint64_t>(counter, least);
}

}  // namespace

std::string status_line(const CampaignStatus& status) {
  const Sample& total = status.total;
  return fmt::format(
      "{} left  {} cases ({:.0f}/s)  {:.0f} launches/s  cells {}/{}{}  corpus {}  findings {}{}",
      span_text(status.left), total.cases, status.cases_per_second, status.launches_per_second, total.cells,
      total.reachable,
      status.newest_cell_age < 0 ? std::string() : fmt::format(" (newest {} ago)", span_text(status.newest_cell_age)),
      total.corpus, total.findings,
      status.waiting > 0 ? fmt::format("  lost processes to look into {}", status.waiting) : "");
}

std::string status_json(const CampaignStatus& status) {
  const Sample& total = status.total;
  return nlohmann::ordered_json{
      {"schema", "tileproof.status/1"},
      {"at", total.at},
      {"elapsed", total.elapsed},
      {"left", status.left},
      {"cases", total.cases},
      {"cases_per_second", status.cases_per_second},
      {"launches", total.launches},
      {"launches_per_second", status.launches_per_second},
      {"cells", total.cells},
      {"reachable", total.reachable},
      {"newest_cell_age",
       status.newest_cell_age < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(status.newest_cell_age)},
      {"corpus", total.corpus},
      {"findings", total.findings},
      {"waiting", status.waiting}}
      .dump();
}

CampaignHistory::CampaignHistory(const std::string& directory, std::vector<const Subject*> subjects, double seconds)
    : directory_(directory),
      subjects_(std::move(subjects)),
      cells_(subjects_),
      board_(directory, cells_.size()),
      reachable_(cells_.reachable()),
      recorded_(cells_.size(), false),
      began_(milliseconds_now()),
      seconds_(seconds) {
  Store store(directory, Database::Mode::create);
  restore(store);
}

// The board is written by the kernel of the machine when it likes: after a reboot it may lie behind the store.
void CampaignHistory::restore(Store& store) {
  const std::vector<Sample> samples = store.samples();
  if (!samples.empty()) {
    elapsed_before_ = samples.back().elapsed;
    raise(board_.cases(), samples.back().cases);
    raise(board_.launches(), samples.back().launches);
  }
  std::map<std::string, std::int64_t> stored;
  for (Cell& cell : store.cells()) {
    stored.emplace(std::move(cell.name), cell.first_seen);
  }
  std::vector<Cell> unknown;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (!reachable_[cell]) {
      continue;
    }
    ++reachable_count_;
    std::string name = cells_.name(cell);
    const auto known = stored.find(name);
    if (known == stored.end()) {
      unknown.push_back({std::move(name), 0});
    } else if (known->second > 0) {
      board_.first_seen(cell) = known->second;
      recorded_[cell] = true;
      board_.newest() = std::max<std::int64_t>(board_.newest(), known->second);
    }
  }
  store.add(unknown);
}

CampaignStatus CampaignHistory::now() {
  CampaignStatus status;
  Sample& total = status.total;
  total.at = milliseconds_now();
  const double run = static_cast<double>(total.at - began_) * 1e-3;
  total.elapsed = elapsed_before_ + run;
  status.left = std::max(0.0, seconds_ - run);
  total.cases = board_.cases();
  total.launches = board_.launches();
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    total.cells += reachable_[cell] && board_.first_seen(cell) != 0 ? 1 : 0;
  }
  total.reachable = reachable_count_;
  total.corpus = count_files(directory_ + "/corpus");
  total.findings = Store(directory_, Database::Mode::read).finding_count();
  const std::int64_t newest = board_.newest();
  status.newest_cell_age = newest == 0 ? -1 : static_cast<double>(std::max<std::int64_t>(0, total.at - newest)) * 1e-3;
  status.waiting = lost_inputs(directory_).size();
  recent_.push_back(total);
  while (recent_.size() > 2 && total.elapsed - recent_[1].elapsed > kRateSeconds) {
    recent_.pop_front();
  }
  const Sample& then = recent_.front();
  if (total.elapsed > then.elapsed) {
    status.cases_per_second = static_cast<double>(total.cases - then.cases) / (total.elapsed - then.elapsed);
    status.launches_per_second = static_cast<double>(total.launches - then.launches) / (total.elapsed - then.elapsed);
  }
  return status;
}

void CampaignHistory::append(const CampaignStatus& status) const {
  const std::string path = directory_ + "/status.jsonl";
  const std::string line = status_json(status) + "\n";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool written = file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (file >= 0) {
    close(file);
  }
  if (!written) {
    throw EnvironmentError(fmt::format("'{}' cannot be written ({}); free space and start again: the campaign goes on",
                                       path, std::strerror(error)));
  }
}

void CampaignHistory::record(const CampaignStatus& status) {
  sync_directory(directory_ + "/corpus");
  std::vector<Cell> fresh;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const std::int64_t seen = board_.first_seen(cell);
    if (seen != 0 && reachable_[cell] && !recorded_[cell]) {
      fresh.push_back({cells_.name(cell), seen});
      recorded_[cell] = true;
    }
  }
  Store store(directory_, Database::Mode::create);
  if (!fresh.empty()) {
    store.add(fresh);
  }
  store.add(status.total);
}

}  // namespace tileproof
