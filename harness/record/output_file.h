// A file that is written whole or not at all.
#ifndef TILEPROOF_RECORD_OUTPUT_FILE_H
#define TILEPROOF_RECORD_OUTPUT_FILE_H

#include <string>

namespace tileproof {

// The constructor tries whether the path can be written, and leaves nothing behind: a check must not run for nothing,
// and one that is killed must not leave half a file. What is there and no regular file (a pipe, /dev/stdout) is written
// to as it is.
class OutputFile {
 public:
  // `option` is named in messages, e.g. "--json". Throws InputError.
  OutputFile(std::string option, std::string path);
  void commit(const std::string& text) const;  // throws EnvironmentError

 private:
  std::string option_;
  std::string path_;       // symbolic links followed
  std::string temporary_;  // beside it; empty: write in place
};

}  // namespace tileproof

#endif
