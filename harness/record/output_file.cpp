#include "record/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

namespace {

// Returns 0 or the error.
int write_file(const std::string& path, int flags, const std::string& text) {
  const int file = open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) {
    return errno;
  }
  int error = 0;
  for (std::size_t done = 0; done < text.size() && error == 0;) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
    error = count < 0 && errno != EINTR ? errno : 0;
  }
  if (close(file) != 0 && error == 0) {
    error = errno;
  }
  return error;
}

}  // namespace

OutputFile::OutputFile(std::string option, std::string path) : option_(std::move(option)), path_(std::move(path)) {
  namespace fs = std::filesystem;
  const auto refuse = [this](const std::string& why) {
    throw InputError(
        fmt::format("{} '{}' given, which cannot be written ({}); expected a file in a directory that is "
                    "there and can be written",
                    option_, path_, why));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (path_.empty() || fs::is_directory(status)) {
    refuse(path_.empty() ? "an empty path" : "a directory");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (access(path_.c_str(), W_OK) != 0) {
      refuse(std::strerror(errno));
    }
    return;
  }
  const fs::path target = fs::exists(status) ? fs::canonical(path_, error) : fs::path(path_);
  const std::string temporary = fmt::format("{}.{}.partial", target.string(), getpid());
  if (const int failed = write_file(temporary, O_CREAT | O_TRUNC, {}); failed != 0) {
    refuse(std::strerror(failed));
  }
  unlink(temporary.c_str());
  path_ = target.string();
  temporary_ = temporary;
}

void OutputFile::commit(const std::string& text) const {
  const bool in_place = temporary_.empty();
  int error = write_file(in_place ? path_ : temporary_, in_place ? 0 : O_CREAT | O_TRUNC, text);
  if (error == 0 && !in_place && std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    if (!in_place) {
      unlink(temporary_.c_str());
    }
    throw EnvironmentError(fmt::format("{} '{}' could not be written ({}); free space or choose another path", option_,
                                       path_, std::strerror(error)));
  }
}

}  // namespace tileproof
