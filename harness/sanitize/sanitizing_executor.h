// Executes runs of a sanitizing build, and hands all others to another executor.
#ifndef TILEPROOF_SANITIZE_SANITIZING_EXECUTOR_H
#define TILEPROOF_SANITIZE_SANITIZING_EXECUTOR_H

#include <memory>

#include "execute/executor.h"

namespace tileproof {

std::unique_ptr<Executor> make_sanitizing_executor(std::unique_ptr<Executor> fast);

}  // namespace tileproof

#endif
