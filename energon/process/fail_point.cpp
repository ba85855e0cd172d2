#include "energon/process/fail_point.h"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "io/concurrency.h"
#include "io/error.h"

namespace energon {
namespace fail_point_detail {

std::atomic<bool> armed{false};

namespace {

struct Armed {
  std::string site;
  FailAction action = FailAction::kKill;
  std::uint64_t passes_left = 0;
};

Mutex mutex;
Armed point ENERGON_GUARDED_BY(mutex);

// The action of the armed point if this is its n-th passage.
std::optional<FailAction> take(std::string_view site) {
  const MutexLock lock(mutex);
  if (point.site != site || point.passes_left == 0 || --point.passes_left > 0) {
    return std::nullopt;
  }
  armed.store(false, std::memory_order_relaxed);  // under the mutex; see the macro
  return point.action;
}

}  // namespace

void pass(std::string_view site) {
  const std::optional<FailAction> action = take(site);
  if (!action) {
    return;
  }
  switch (*action) {
    case FailAction::kKill:
      std::raise(SIGKILL);
      return;
    case FailAction::kAbort:
      std::raise(SIGABRT);
      return;
    case FailAction::kExit:
      ::_exit(0);
    case FailAction::kThrow:
      throw Error(ErrorCode::kInternal, "fail point " + std::string(site));
    case FailAction::kHang:
      for (std::atomic<bool> forever{true}; forever.load(std::memory_order_relaxed);) {
      }
      return;
  }
}

}  // namespace fail_point_detail

void arm_fail_point(std::string_view site, FailAction action, std::uint64_t nth) {
  if (!has_fail_points()) {
    throw Error(ErrorCode::kUnsupported, "fail points are not compiled in");
  }
  const MutexLock lock(fail_point_detail::mutex);
  fail_point_detail::point = {std::string(site), action, nth};
  fail_point_detail::armed.store(true, std::memory_order_relaxed);  // see the macro
}

void disarm_fail_point() noexcept {
  fail_point_detail::armed.store(false, std::memory_order_relaxed);  // see the macro
}

bool has_fail_points() noexcept {
#ifdef ENERGON_FAIL_POINTS
  return true;
#else
  return false;
#endif
}

}  // namespace energon
