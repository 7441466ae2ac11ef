#include "fuzz/campaign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "memory/arena.h"
#include "record/output_file.h"
#include "search/engine.h"

namespace tileproof {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSchema = "tileproof.campaign/1";
constexpr std::uint64_t kMagic = 0x74705f626f617264;  // "tp_board"
constexpr std::size_t kFlightBytes = std::size_t{1} << 18;

struct FlightPage {
  std::atomic<bool> in_flight;
  std::uint64_t bytes;
  char inputs[1];  // each with a zero behind it
};

std::string settings_path(const std::string& directory) { return directory + "/settings.json"; }

std::string whole_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<std::string> inputs_of_flight(const std::string& content) {
  std::vector<std::string> inputs;
  if (content.size() == kFlightBytes) {
    const auto& page = *reinterpret_cast<const FlightPage*>(content.data());
    const std::size_t count = std::min<std::size_t>(page.bytes, kFlightBytes - sizeof(FlightPage));
    std::istringstream lines(page.in_flight ? std::string(page.inputs, count) : std::string());
    for (std::string input; std::getline(lines, input, '\0');) {
      inputs.push_back(input);
    }
  }
  return inputs;
}

}  // namespace

bool has_settings(const std::string& directory) { return fs::exists(settings_path(directory)); }

CampaignSettings read_settings(const std::string& directory) {
  const std::string path = settings_path(directory);
  if (!has_settings(directory)) {
    throw InputError(
        fmt::format("'{}' given, which holds no campaign (settings.json); expected the --dir of a "
                    "tileproof fuzz",
                    directory));
  }
  try {
    const nlohmann::json document = nlohmann::json::parse(whole_file(path));
    if (document.at("schema") != kSchema) {
      throw InputError(
          fmt::format("'{}' given, of schema {}; expected {}: choose another directory, or the tileproof "
                      "that wrote it",
                      path, document.at("schema").dump(), kSchema));
    }
    return {document.at("subjects"), document.at("properties"), document.at("seed"), document.at("sanitize_every"),
            document.at("timeout")};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        fmt::format("'{}' given, which cannot be read ({}); expected the settings that tileproof fuzz "
                    "wrote: restore them or choose another directory",
                    path, error.what()));
  }
}

void write_settings(const std::string& directory, const CampaignSettings& settings) {
  const nlohmann::json document{{"schema", kSchema},
                                {"version", TILEPROOF_VERSION},
                                {"subjects", settings.subjects},
                                {"properties", settings.properties},
                                {"seed", settings.seed},
                                {"sanitize_every", settings.sanitize_every},
                                {"timeout", settings.timeout_seconds}};
  OutputFile("--dir", settings_path(directory)).commit(document.dump(2) + "\n");
}

std::vector<const Subject*> subjects_of(const CampaignSettings& settings) {
  std::vector<const Subject*> result;
  for (const std::string& name : settings.subjects) {
    const Subject* subject = find_subject(name);
    if (subject == nullptr) {
      throw InputError(
          fmt::format("the campaign fuzzes '{}', which this build does not have; expected a build with it, "
                      "or another --dir",
                      name));
    }
    result.push_back(subject);
  }
  return result;
}

std::vector<const Property*> properties_of(const CampaignSettings& settings) {
  std::vector<const Property*> result;
  for (const std::string& name : settings.properties) {
    const std::vector<const Property*> found = matching_properties({name});
    if (found.empty()) {
      throw InputError(
          fmt::format("the campaign judges by '{}', which this build does not have; expected a build with "
                      "it, or another --dir",
                      name));
    }
    result.insert(result.end(), found.begin(), found.end());
  }
  return result;
}

std::int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

SharedFile::SharedFile(const std::string& path, std::size_t size) : size_(size) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  const auto refuse = [&](int error) {
    if (file >= 0) {
      close(file);
    }
    throw EnvironmentError(
        fmt::format("'{}' cannot be written ({}); free space or choose another --dir", path, std::strerror(error)));
  };
  if (file < 0) {
    refuse(errno);
  }
  struct stat status {};
  if (fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) != size) {
    const bool truncated = ftruncate(file, 0) == 0;
    const int error = truncated ? posix_fallocate(file, 0, static_cast<off_t>(size)) : errno;
    if (error != 0) {
      unlink(path.c_str());
      refuse(error);
    }
  }
  data_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data_ == MAP_FAILED) {
    refuse(errno);
  }
  close(file);
}

SharedFile::~SharedFile() { munmap(data_, size_); }

CampaignBoard::CampaignBoard(const std::string& directory, std::size_t cells)
    : size_(cells), file_(directory + "/board", sizeof(Header) + cells * sizeof(std::atomic<std::int64_t>)) {
  if (header().magic != kMagic || header().cell_count != cells) {
    std::memset(file_.data(), 0, sizeof(Header) + cells * sizeof(std::atomic<std::int64_t>));
    header().cell_count = cells;
    header().magic = kMagic;
  }
}

void CampaignBoard::give_up(const std::string& why) {
  bool was = false;
  if (header().gave_up.compare_exchange_strong(was, true)) {
    const std::size_t count = std::min(why.size(), sizeof(Header::why) - 1);
    std::memcpy(header().why, why.data(), count);
    header().why[count] = 0;
  }
}

std::string CampaignBoard::gave_up() const {
  const std::string why(header().why, strnlen(header().why, sizeof(Header::why)));
  return header().gave_up && why.empty() ? "a process of the campaign gave up" : header().gave_up ? why : std::string();
}

void CampaignBoard::forget_giving_up() {
  header().gave_up = false;
  header().why[0] = 0;
}

Flight::Flight(const std::string& directory)
    : path_(fmt::format("{}/flights/{}", directory, getpid())), file_(path_, kFlightBytes) {
  static_cast<FlightPage*>(file_.data())->in_flight = false;
}

Flight::~Flight() { unlink(path_.c_str()); }

void Flight::take_off(const std::vector<std::string>& inputs) {
  auto& page = *static_cast<FlightPage*>(file_.data());
  page.bytes = 0;
  for (const std::string& input : inputs) {
    if (sizeof(FlightPage) + page.bytes + input.size() + 1 <= kFlightBytes) {
      std::memcpy(page.inputs + page.bytes, input.c_str(), input.size() + 1);
      page.bytes += input.size() + 1;
    }
  }
  page.in_flight = true;
}

void Flight::land() { static_cast<FlightPage*>(file_.data())->in_flight = false; }

void collect_flights(const std::string& directory, Flights which) {
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory + "/flights", gone)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (which != Flights::all && pid > 0 && kill(pid, 0) == 0) {
      continue;
    }
    const std::vector<std::string> inputs =
        which == Flights::discard ? std::vector<std::string>() : inputs_of_flight(whole_file(entry.path()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      OutputFile("--dir", fmt::format("{}/lost/{}-{}-{}", directory, milliseconds_now(), pid, i)).commit(inputs[i]);
    }
    fs::remove(entry.path(), gone);
  }
}

std::vector<LostInput> lost_inputs(const std::string& directory) {
  std::vector<LostInput> result;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory + "/lost", gone)) {
    if (entry.path().extension() != ".partial") {
      result.push_back({entry.path().string(), whole_file(entry.path())});
    }
  }
  std::sort(result.begin(), result.end(), [](const LostInput& a, const LostInput& b) { return a.path < b.path; });
  return result;
}

}  // namespace tileproof
