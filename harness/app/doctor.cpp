// tileproof doctor: what this machine can run, and why not the rest. Everything it says it has just tried.
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "app/commands.h"
#include "app/output.h"
#include "execute/device.h"
#include "execute/fiber.h"
#include "memory/arena.h"

namespace tileproof {

namespace {

constexpr char kFooter[] =
    "\nExample:\n"
    "  tileproof doctor\n"
    "\nExit: 0 the cpu device is usable, 3 it is not.";

struct Probe {
  bool usable = false;
  std::string text;
};

std::string machine() {
  utsname system{};
  uname(&system);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const long usable = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : online;
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return fmt::format("{} {} {}, {} cores ({} usable here), {:.1f} GiB of memory", system.sysname, system.release,
                     system.machine, online, usable, bytes / (1UL << 30));
}

std::string features() {
  std::string text;
#ifdef __x86_64__
  const std::pair<const char*, bool> known[] = {{"avx2", __builtin_cpu_supports("avx2") != 0},
                                                {"fma", __builtin_cpu_supports("fma") != 0},
                                                {"avx512f", __builtin_cpu_supports("avx512f") != 0}};
  for (const auto& [name, there] : known) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, there ? "yes" : "no");
  }
#ifdef __AVX2__
  text += "; built for x86-64-v3";
#else
  text += "; built for plain x86-64: slower, configure with -DTILEPROOF_ARCH=x86-64-v3 where avx2 and fma are there";
#endif
#else
  text = "not asked on this architecture";
#endif
  return text;
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

cpu::Fibers* probed_fibers = nullptr;
bool fiber_ran = false;

void fiber_entry(boost::context::detail::transfer_t transfer) {
  cpu::Fibers::arrive(transfer);
  fiber_ran = true;
  probed_fibers->switch_to(probed_fibers->launcher());
}

Probe fibers() {
  cpu::Fibers fibers(fiber_entry);
  probed_fibers = &fibers;
  cpu::Fiber* fiber = fibers.take();
  if (fiber == nullptr) {
    return {false, "no memory for a stack (ulimit -v?): kernels with barriers cannot run"};
  }
  fibers.switch_to(fiber);
  return {fiber_ran, fiber_ran ? "switched to one and back: kernels with barriers run"
                               : "a switch did not arrive: kernels with barriers cannot run"};
}

// Two rows, the second 2^31 elements behind the first.
Probe sparse_memory() {
  TensorSpec spec;
  spec.name = "probe";
  spec.axes = {{AxisKind::row, {}}, {AxisKind::dim, {}}};
  Layout layout;
  layout.shape.spec = &spec;
  layout.shape.rank = 2;
  layout.shape.shape = {2, 4};
  layout.strides = {std::int64_t{1} << 31, 1};
  layout.extent = (std::int64_t{1} << 31) + 4;
  layout.sparse = true;
  try {
    Arena arena;
    arena.prepare({layout}, GuardFill::finite, 1);
    const std::vector<std::byte> rows(8 * sizeof(float), std::byte{1});
    arena.scatter(arena.tensors().front(), rows.data());
    const bool kept = arena.damage(GuardFill::finite).empty();
    return {kept, kept ? "mapped two rows 2^31 elements apart: offsets past 32 bits are tried"
                       : "what was written past 2^31 elements came back elsewhere"};
  } catch (const EnvironmentError& error) {
    return {false, fmt::format("{}: cases with sparse= will be refused", error.what())};
  }
}

std::string toolkit() {
#ifdef TILEPROOF_TOOLKIT
  return "every kernel was compiled by nvcc too, of CUDA " TILEPROOF_TOOLKIT;
#else
  return "none when this was built (or TILEPROOF_CUDA=OFF): kernels were compiled for the cpu only";
#endif
}

int doctor() {
  const Probe fiber = fibers();
  const Probe sparse = sparse_memory();
  std::size_t clean = 0;
  const std::vector<const Subject*> on_cpu = subjects_on("cpu", {"*", "*@*"});
  for (const Subject* subject : on_cpu) {
    clean += subject->fault ? 0 : 1;
  }
  const auto word = [](const Probe& probe) { return probe.usable ? "usable" : "NOT USABLE"; };
  say(fmt::format("version    {}\n", TILEPROOF_VERSION));
  say(fmt::format("system     {}\n", machine()));
  say(fmt::format("cpu        {}\n", features()));
  say(fmt::format("compiler   {}\n", compiler()));
  say(fmt::format("device cpu {}; {} subjects, {} known faults\n", word(fiber), clean, on_cpu.size() - clean));
  say(fmt::format("  fibers   {}, {}\n", word(fiber), fiber.text));
  say(fmt::format("  sparse   {}, {}\n", word(sparse), sparse.text));
  const CudaReport& cuda = cuda_report();
  say(fmt::format("device cuda {}\n", cuda.usable() ? "usable" : "NOT USABLE, " + cuda.reason));
  say(fmt::format("  toolkit  {}\n", toolkit()));
  for (const std::string& line : cuda.lines) {
    say(fmt::format("  {}\n", line));
  }
  return fiber.usable ? 0 : 3;
}

}  // namespace

void add_doctor(CLI::App& app, Command& chosen) {
  CLI::App& command = *app.add_subcommand("doctor", "what this machine can run, and why not the rest");
  command.footer(kFooter);
  command.callback([&chosen] { chosen = doctor; });
}

}  // namespace tileproof
