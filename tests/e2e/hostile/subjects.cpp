// Subjects that do to their process what broken kernels do, on the heads 7, 14, 21 ..., and are right on all others.
#include <csignal>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "tileproof/plugin.h"

extern "C" const tileproof_subject* tileproof_subject_mla_rope_q_fwd__clean();

namespace {

const tileproof_subject& honest() { return *tileproof_subject_mla_rope_q_fwd__clean(); }

bool is_chosen(const tileproof_launch* launch) {
  for (size_t i = 0; i < launch->scalar_count; ++i) {
    if (std::string_view(launch->scalars[i].name) == "head_num") {
      return launch->scalars[i].value % 7 == 0;
    }
  }
  return false;
}

template <void (*act)()>
int32_t launch(const tileproof_launch* request) {
  if (is_chosen(request)) {
    act();
  }
  return honest().launch(request);
}

void hang() {
  while (true) {
    pause();
  }
}
void crash() { raise(SIGSEGV); }
void exit_at_once() { _exit(0); }
void die() { raise(SIGKILL); }

tileproof_subject subject_that(const char* variant, int32_t (*launch)(const tileproof_launch*)) {
  tileproof_subject subject = honest();
  subject.variant = variant;
  subject.expected = "launch_valid";
  subject.launch = launch;
  return subject;
}

}  // namespace

namespace tileproof {

std::vector<const tileproof_subject*> builtin_subjects();

std::vector<const tileproof_subject*> builtin_subjects() {
  static const tileproof_subject subjects[] = {
      honest(), subject_that("@hangs", launch<hang>), subject_that("@crashes", launch<crash>),
      subject_that("@exits", launch<exit_at_once>), subject_that("@dies", launch<die>)};
  std::vector<const tileproof_subject*> result;
  for (const tileproof_subject& subject : subjects) {
    result.push_back(&subject);
  }
  return result;
}

}  // namespace tileproof
