#include "sanitize/describe.h"

#include <algorithm>

#include <fmt/format.h>

#include "execute/launch_limits.h"
#include "sanitize/address_space.h"
#include "sanitize/source_lines.h"

namespace tileproof::sanitize {

namespace {

struct Kind {
  const char* property;
  const char* name;
};

Kind kind_of(Fault fault) {
  switch (fault) {
    case Fault::race: return {"race_free", "race"};
    case Fault::second_store: return {"single_writer", "second_store"};
    case Fault::outside: return {"memory_safe", "outside"};
    case Fault::read_only: return {"memory_safe", "read_only"};
    case Fault::expired_local: return {"memory_safe", "expired_local"};
    case Fault::wild: return {"memory_safe", "wild"};
    case Fault::unwritten: return {"initialized", "unwritten"};
    case Fault::undefined_value: return {"initialized", "undefined_value"};
    case Fault::barrier_missed: return {"barriers", "missed"};
    case Fault::barrier_diverged: return {"barriers", "diverged"};
    case Fault::warp_missed: return {"barriers", "warp_missed"};
    case Fault::warp_diverged: return {"barriers", "warp_diverged"};
    case Fault::stuck: return {"barriers", "stuck"};
  }
  return {"", ""};
}

constexpr std::size_t kSparseReach = std::size_t{1} << 33;  // what is reserved around a tensor with wide strides

// The tensor in whose elements, gaps or guards an address lies, or, of one with wide strides, in whose reach; null: in
// none.
const Placed* tensor_at(const std::vector<Placed>& tensors, std::uintptr_t address) {
  for (const Placed& placed : tensors) {
    const auto base = reinterpret_cast<std::uintptr_t>(placed.base);
    const std::size_t extent = static_cast<std::size_t>(placed.layout.extent) * size_of(placed.layout.shape.dtype);
    const std::size_t before = placed.layout.sparse ? kSparseReach : placed.before;
    const std::size_t after = placed.layout.sparse ? kSparseReach : placed.after;
    if (address - (base - before) < before + extent + after) {
      return &placed;
    }
  }
  return nullptr;
}

std::string memory_text(const std::vector<Placed>& tensors, const Access& access) {
  if (const Placed* placed = tensor_at(tensors, access.address)) {
    const auto element = static_cast<std::int64_t>(size_of(placed->layout.shape.dtype));
    const auto byte = static_cast<std::int64_t>(access.address - reinterpret_cast<std::uintptr_t>(placed->base));
    return place_text(placed->layout, byte >= 0 ? byte / element : -((element - 1 - byte) / element));
  }
  const std::span<const std::byte> fixed = static_shared_memory();
  const auto in_dynamic = access.address - reinterpret_cast<std::uintptr_t>(cpu::dynamic_shared());
  const auto in_static = access.address - reinterpret_cast<std::uintptr_t>(fixed.data());
  if (in_dynamic < cpu::kMaxShared) {
    return fmt::format("byte {} of dynamic shared memory", in_dynamic);
  }
  if (in_static < fixed.size()) {
    for (const SharedArray& array : static_shared_arrays()) {
      if (in_static - array.offset < array.bytes) {
        return fmt::format("byte {} of the shared array {}", in_static - array.offset, array.name);
      }
    }
    return "a byte between shared arrays";
  }
  return "an address";  // it differs from process to process
}

std::string thread_text(const Access& access) {
  return fmt::format("thread ({},{},{}) of block ({},{},{})", access.thread_index.x, access.thread_index.y,
                     access.thread_index.z, access.block.x, access.block.y, access.block.z);
}

std::string access_text(const Access& access, const std::vector<Place>& places) {
  return fmt::format("{} at {}, by {}",
                     access.atomic  ? "atomic"
                     : access.store ? "store"
                                    : "load",
                     line_text(places), thread_text(access));
}

// Either of two lines may be the later one, as the order of threads has it.
std::string pair_text(const std::vector<Place>& a, const std::vector<Place>& b) {
  const std::string first = kernel_line(a);
  const std::string second = kernel_line(b);
  const bool swapped = std::pair(second.size(), second) < std::pair(first.size(), first);
  return swapped ? fmt::format("{}+{}", second, first) : fmt::format("{}+{}", first, second);
}

std::string what(const Sighting& sighting, const std::string& memory, const std::string& line) {
  const Access& a = sighting.access;
  const std::string verb = a.atomic ? "changes" : a.store ? "stores" : "loads";
  switch (sighting.fault) {
    case Fault::race: return fmt::format("{} {} {} while nothing orders it after another access", line, verb, memory);
    case Fault::second_store: return fmt::format("{} stores {}, which another thread has stored", line, memory);
    case Fault::outside: return fmt::format("{} {} {}, which is no element of the tensor", line, verb, memory);
    case Fault::read_only: return fmt::format("{} stores {}, which is only read", line, memory);
    case Fault::expired_local: return fmt::format("{} {} a local of a function that has returned", line, verb);
    case Fault::wild: return fmt::format("{} {} {}, which is no memory of the launch", line, verb, memory);
    case Fault::unwritten: return fmt::format("{} loads {}, which nothing has written", line, memory);
    case Fault::undefined_value:
      return fmt::format("{} stores {} from a local that has no value, or from a lane that takes no part", line,
                         memory);
    case Fault::barrier_missed:
      return fmt::format("__syncthreads at {}: {} threads of block ({},{},{}) returned without reaching it", line,
                         sighting.count, a.block.x, a.block.y, a.block.z);
    case Fault::barrier_diverged: return fmt::format("threads of a block wait at different __syncthreads: {}", line);
    case Fault::warp_missed:
      return fmt::format("warp operation at {}: its mask names lanes {:#010x} that returned without it", line,
                         sighting.count);
    case Fault::warp_diverged: return fmt::format("lanes of one mask are at different warp operations: {}", line);
    case Fault::stuck: return fmt::format("{}: {}", line, sighting.text);
  }
  return "";
}

}  // namespace

std::vector<HazardReport> describe(const std::vector<Sighting>& sightings, const std::vector<Placed>& tensors) {
  std::vector<HazardReport> reports;
  for (const Sighting& sighting : sightings) {
    const std::vector<Place> places = places_of(sighting.access.calls);
    const std::vector<Place> others = sighting.other ? places_of(sighting.other->calls) : std::vector<Place>();
    const bool of_barrier = sighting.fault == Fault::barrier_diverged || sighting.fault == Fault::warp_diverged;
    const std::string text = line_text(places);
    const std::string other_text = sighting.other ? line_text(others) : "";
    if (of_barrier && text == other_text) {
      continue;  // one line, compiled twice
    }
    const Placed* placed = sighting.access.address == 0 ? nullptr : tensor_at(tensors, sighting.access.address);
    const Kind kind = kind_of(sighting.fault);
    HazardReport report;
    report.property = kind.property;
    report.kind = kind.name;
    report.tensor = placed != nullptr ? placed->layout.shape.spec->name : sighting.access.address != 0 ? "shared" : "";
    report.where = sighting.other ? pair_text(places, others) : kernel_line(places);
    report.message = what(sighting, memory_text(tensors, sighting.access), kernel_line(places));
    const bool accesses = sighting.access.address != 0;
    report.evidence.push_back(accesses ? access_text(sighting.access, places)
                                       : fmt::format("{} waits at {}", thread_text(sighting.access), text));
    if (sighting.other) {
      report.evidence.push_back(accesses ? "before it: " + access_text(*sighting.other, others)
                                         : fmt::format("{} waits at {}", thread_text(*sighting.other), other_text));
    }
    report.lines = fmt::format("{}+{}", text, other_text);
    const bool known = std::any_of(reports.begin(), reports.end(), [&](const HazardReport& r) {
      return r.property == report.property && r.kind == report.kind && r.tensor == report.tensor &&
             r.lines == report.lines;
    });
    if (!known) {
      reports.push_back(std::move(report));
    }
  }
  return reports;
}

}  // namespace tileproof::sanitize
