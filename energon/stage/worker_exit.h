// Exit codes that tell why a worker ended itself.

#pragma once

namespace energon {

/// A call of next() exceeded the time limit of the watchdog (wrappers/watch/watchdog.h).
inline constexpr int kWatchdogExitCode = 75;

}  // namespace energon
